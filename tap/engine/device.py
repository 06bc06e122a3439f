"""Which device a job computes on."""

from __future__ import annotations

import os

import torch

from tap.errors import UserError


def select_device(wanted: str) -> torch.device:
    """The device that the setting ``device`` names; under ``torchrun`` each process takes the GPU of its local rank.

    Args:
        wanted: ``cpu``, ``cuda``, or ``auto`` for a GPU where there is one.

    Raises:
        UserError: a GPU is wanted and there is none for this process.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"device: '{wanted}' needs GPU number {local_rank} and torch sees {torch.cuda.device_count()}; set device "
            "to 'cpu', or start no more processes than there are GPUs"
        )
    return torch.device("cuda", local_rank)
