"""Low-rank updates of a frozen backbone, one set per task (Sec. Parameter and recovery-buffer cost).

Each linear map of a block (fused query-key-value, attention output, both of the MLP) gets an update of rank r beside
its frozen weight, W x + b + (alpha / r) B A x. B starts at zero, so a fresh update changes nothing. The update stays
apart from the weight in the forward pass, as throughput is measured; `merge_low_rank` folds it in for use with one
task.

The pieces of a block (`tap.encoder.blocks`) compute keys before queries and values from slices of one fused weight,
which the layers of common adapter libraries do not offer; hence a layer of our own (`docs/dependencies.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tap.errors import UserError

ADAPTED = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
"""The linear maps of a block that get an update."""

DOWN, UP = "low_rank_down", "low_rank_up"


class LowRankLinear(nn.Linear):
    """A linear map with a low-rank update beside its weight.

    Args:
        plain: the map; its parameters are taken over, not copied, and frozen.
        rank: inner width r of the update.
        alpha: the update is scaled by alpha / r.

    Raises:
        UserError: the rank is not within what the map's sizes allow.
    """

    def __init__(self, plain: nn.Linear, rank: int, alpha: float) -> None:
        smaller = min(plain.in_features, plain.out_features)
        if not 1 <= rank <= smaller:
            raise UserError(f"rank: {rank} is outside 1 to {smaller}, the smaller side of the map that is updated")
        super().__init__(plain.in_features, plain.out_features, plain.bias is not None, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        self.rank, self.alpha = rank, alpha
        self.low_rank_down = nn.Parameter(plain.weight.new_empty(rank, plain.in_features))
        self.low_rank_up = nn.Parameter(plain.weight.new_zeros(plain.out_features, rank))
        nn.init.kaiming_uniform_(self.low_rank_down, a=math.sqrt(5))

    def forward(self, input: Tensor) -> Tensor:
        """W x + b + (alpha / r) B A x, `(..., out)` of `(..., in)`."""
        return self.rows(input, 0, self.out_features)

    def rows(self, input: Tensor, start: int, stop: int) -> Tensor:
        """The outputs `start` to `stop` alone, `(..., stop - start)` of `(..., in)`."""
        plain = F.linear(input, self.weight[start:stop], None if self.bias is None else self.bias[start:stop])
        update = F.linear(F.linear(input, self.low_rank_down), self.low_rank_up[start:stop])
        return plain + (self.alpha / self.rank) * update

    def merged(self) -> nn.Linear:
        """A plain map with the update folded into a weight of its own."""
        plain = nn.Linear(self.in_features, self.out_features, self.bias is not None, device="meta")
        with torch.no_grad():
            update = (self.low_rank_up.double() @ self.low_rank_down.double()) * (self.alpha / self.rank)
            plain.weight = nn.Parameter((self.weight.double() + update).to(self.weight.dtype))
        if self.bias is not None:
            plain.bias = nn.Parameter(self.bias.detach().clone())
        return plain

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"{super().extra_repr()}, rank={self.rank}, alpha={self.alpha}"


def add_low_rank(vit: Any, rank: int, alpha: float) -> None:
    """Freezes a backbone and gives every block its updates, in place.

    Args:
        vit: timm `VisionTransformer`, or a ViTDet trunk made of one.
        rank: inner width r of each update.
        alpha: updates are scaled by alpha / r.

    Raises:
        UserError: the backbone has updates already, or the rank does not fit.
    """
    if any(True for _ in adapted(vit)):
        raise UserError("low rank: the backbone has low-rank updates already; build a fresh one, or use those it has")
    vit.requires_grad_(False)
    for block in vit.blocks:
        for name in ADAPTED:
            parent, _, last = name.rpartition(".")
            owner = block.get_submodule(parent)
            setattr(owner, last, LowRankLinear(getattr(owner, last), rank, alpha))


def merge_low_rank(vit: Any) -> None:
    """Folds all updates into the weights, in place: one task's backbone without a trace of the updates.

    Raises:
        UserError: there is nothing to merge.
    """
    found = list(adapted(vit))
    if not found:
        raise UserError("merge: the backbone has no low-rank updates (or they were merged before)")
    for name, layer in found:
        parent, _, last = name.rpartition(".")
        setattr(vit.get_submodule(parent), last, layer.merged())


def adapted(vit: nn.Module) -> Iterator[tuple[str, LowRankLinear]]:
    """The maps that have an update, by name."""
    for name, module in vit.named_modules():
        if isinstance(module, LowRankLinear):
            yield name, module


def is_low_rank(name: str) -> bool:
    """Whether a parameter of that name belongs to an update."""
    return name.rpartition(".")[2] in (DOWN, UP)
