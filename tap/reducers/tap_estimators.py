"""What stands in for the constrained mask in the paper's controls of the training estimator (tab:training-ablation)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tap.core.straight_through import straight_through


class IndependentGates(nn.Module):
    """A gate per patch, open above one half; only a penalty ties their number to the budget (tab:training-ablation).

    Register scores have no natural zero, so each pruning layer has a bias of its own, learned like the rest.

    Args:
        layers: pruning blocks.
        weight: of the penalty.
    """

    def __init__(self, layers: tuple[int, ...], weight: float) -> None:
        super().__init__()
        self.layers, self.weight = layers, weight
        self.bias = nn.Parameter(torch.zeros(len(layers)))

    def logits(self, layer: int, scores: Tensor) -> Tensor:
        """Logits of the gates of a pruning block `(B, N)`, float32."""
        return scores + self.bias[self.layers.index(layer)]

    def keep(self, logits: Tensor, valid: Tensor | None) -> Tensor:
        """Which patches stay `(B, N)`, bool: those with an open gate, and the best one where all are shut."""
        if valid is not None:
            logits = logits.masked_fill(~valid, float("-inf"))
        best = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, logits.argmax(dim=1, keepdim=True), True)
        return (logits > 0) | best

    def mask(self, keep: Tensor, logits: Tensor, temperature: float) -> Tensor:
        """The hard decision with the gates' own gradient `(B, N)`."""
        return straight_through(keep, torch.sigmoid(logits / temperature))

    def penalty(
        self, logits: Tensor, temperature: float, target: Tensor, counts: Tensor, valid: Tensor | None
    ) -> Tensor:
        """Squared distance of the mean gate from the share that the budget leaves, averaged over images.

        Args:
            logits: of the gates `(B, N)`.
            temperature: of the gates.
            target: removals that the allocation asks for `(B,)`.
            counts: candidates of each image `(B,)`.
            valid: which cells are candidates; None for all.
        """
        gates = torch.sigmoid(logits / temperature)
        gates = gates if valid is None else gates * valid
        return ((gates.sum(dim=1) - (counts - target)) / counts).square().mean()
