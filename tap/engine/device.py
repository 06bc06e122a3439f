"""Which device a job computes on, and how a record calls it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tap.engine.gpu_pool import take_gpus
from tap.errors import UserError
from tap.provenance.record import processor


def select_device(wanted: str) -> torch.device:
    """The device that the setting ``device`` names, lent to this process alone (`tap.engine.gpu_pool`).

    Under ``torchrun`` the launcher has taken the cards, and each process has the one of its local rank.

    Args:
        wanted: ``cpu``, ``cuda``, or ``auto`` for a GPU where there is one.

    Raises:
        UserError: a GPU is wanted and there is none for this process.
    """
    if wanted != "cpu" and "LOCAL_RANK" not in os.environ and not torch.cuda.is_initialized():
        take_gpus(1)
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"device: '{wanted}' needs GPU number {local_rank} and torch sees {torch.cuda.device_count()}; set device "
            "to 'cpu', or start no more processes than there are GPUs"
        )
    return torch.device("cuda", local_rank)


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Has torch compute with `count` threads: the number decides the last digits of sums, and the speed."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_device(device: torch.device) -> str:
    """The device in words: the model of the GPU, or of the processor with the number of threads in use."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' if threads > 1 else ''}"
