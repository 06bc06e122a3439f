"""Parameters that TAP adds, by formulas (Sec. Parameter and recovery-buffer cost)."""

from __future__ import annotations


def controller_parameters(dim: int, recovery: bool = True) -> int:
    """One register and its readouts: 3d + 2 with recovery, 2d + 1 without (Eq. S13).

    Args:
        dim: token width d.
        recovery: whether the recovery readout is counted.
    """
    return 3 * dim + 2 if recovery else 2 * dim + 1


def lora_parameters(dim: int, blocks: int, rank: int, mlp_ratio: int = 4) -> int:
    """Low-rank updates of the fused qkv, attention output and both MLP maps of every block (Eq. S14).

    Args:
        dim: token width d.
        blocks: transformer blocks L.
        rank: rank of every update.
        mlp_ratio: hidden width of the MLP over d.
    """
    hidden = mlp_ratio * dim
    maps = ((dim, 3 * dim), (dim, dim), (dim, hidden), (hidden, dim))
    return blocks * rank * sum(inputs + outputs for inputs, outputs in maps)


def task_parameters(dim: int, blocks: int, rank: int) -> int:
    """What TAP-F stores per task: low-rank updates and one register; the readouts are shared (tab:parameters)."""
    return lora_parameters(dim, blocks, rank) + dim
