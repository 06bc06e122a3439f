"""Several processes under ``torchrun``: who am I, and the mean of all gradients.

Gradients are averaged after the backward pass in one message per data type instead of through torch's
``DistributedDataParallel``. That wrapper expects one module whose parameters all take part in every step; here a step
may train one of several models that share parameters, and a pruning layer that removes nothing leaves its readouts
without a gradient. A parameter that no process has a gradient for keeps none, so the optimizer leaves it alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")

PATIENCE: Final = timedelta(minutes=30)
"""How long a process waits for the others: one that hangs ends the job after that, not never.

What the first does alone (a calibration, a state written to a slow disk) has to fit in.
"""


@dataclass(frozen=True)
class Processes:
    """This process among those of the job.

    Attributes:
        rank: number of this process.
        world_size: how many there are.
        local_rank: number of this process on its machine, which names its GPU.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def mean(self, values: Tensor) -> Tensor:
        """The mean of `values` over all processes; not finite as soon as one of them is not."""
        if self.world_size > 1:
            values = values.clone()
            dist.all_reduce(values)
            values /= self.world_size
        return values

    def any_of(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each of some flags is set in any process."""
        if self.world_size == 1:
            return flags
        values = torch.tensor(flags, dtype=torch.float32, device=_device())
        dist.all_reduce(values)
        return tuple(bool(value) for value in values.tolist())

    def first_then_others(self, action: Callable[[], T]) -> T:
        """Runs `action` in the first process, then in the others, and gives each its own result."""
        if not self.first:
            dist.barrier()
            return action()
        result = action()
        if self.world_size > 1:
            dist.barrier()
        return result

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replaces each gradient by its mean over all processes (absent ones count as zero)."""
        if self.world_size == 1:
            return
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        present = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.float32)
        present = present.to(parameters[0].device)
        dist.all_reduce(present)
        trained = [parameter for parameter, count in zip(parameters, present.tolist(), strict=True) if count]
        for dtype in {parameter.dtype: None for parameter in trained}:
            group = [parameter for parameter in trained if parameter.dtype == dtype]
            flat = torch.cat([_gradient(parameter).reshape(-1) for parameter in group])
            dist.all_reduce(flat)
            flat /= self.world_size
            for parameter, part in zip(group, flat.split([p.numel() for p in group]), strict=True):
                parameter.grad = part.view_as(parameter)


def _device() -> torch.device:
    """Where messages lie: NCCL takes those on a GPU alone."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


@contextmanager
def join_processes(device_type: str) -> Iterator[Processes]:
    """Joins the processes that ``torchrun`` started, or stands alone where it did not.

    Args:
        device_type: ``cuda`` talks over NCCL, ``cpu`` over gloo.
    """
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield Processes()
        return
    processes = Processes(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
    if device_type == "cuda":
        torch.cuda.set_device(processes.local_rank)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield processes
    finally:
        dist.destroy_process_group()
