"""A decoder whose class queries look for their mask: the auxiliary heads of DToP (SegViT's attention-to-mask)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.layers import trunc_normal_
from torch import Tensor, nn

from tap.reducers.precision import in_type_of_weights

NO_OBJECT_WEIGHT = 0.1
"""Weight of absent classes in the presence loss (public)."""
FOCAL_ALPHA, FOCAL_GAMMA = 0.25, 2.0


class MaskAttention(nn.Module):
    """Cross-attention of class queries on patches that also gives its logits, averaged over heads.

    Args:
        width: of queries and patches.
        heads: attention heads.
        dropout: of the attention weights.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, patches: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attended values `(B, C, w)` and mask logits `(B, C, N)`, of queries `(B, C, w)` and patches `(B, N, w)`."""
        projected = (self.q(queries), self.k(patches), self.v(patches))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        logits = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
        hidden = logits if valid is None else logits.masked_fill(~valid[:, None, None], float("-inf"))
        out = self.dropout(hidden.softmax(dim=-1)) @ value
        return self.proj(out.transpose(1, 2).flatten(2)), logits.mean(dim=1)


class DecoderLayer(nn.Module):
    """Self-attention of the queries, cross-attention, MLP; each normalised behind its residual connection."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.cross_attention = MaskAttention(width, heads, dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, patches: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """New queries `(B, C, w)` and mask logits `(B, C, N)`."""
        own = self.self_attention(queries, queries, queries, need_weights=False)[0]
        queries = self.norm1(queries + self.dropout(own))
        found, masks = self.cross_attention(queries, patches, valid)
        queries = self.norm2(queries + self.dropout(found))
        mixed = self.down(self.dropout(F.relu(self.up(queries))))
        return self.norm3(queries + self.dropout(mixed)), masks


class MaskDecoder(nn.Module):
    """One learned query per class; the last layer's attention logits are the masks.

    Args:
        width: of the patches.
        channels: of the decoder.
        num_classes: queries.
        layers: decoder layers.
        heads: attention heads.
        dropout: in training.
    """

    def __init__(self, width: int, channels: int, num_classes: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.input_proj, self.input_norm = nn.Linear(width, channels), nn.LayerNorm(channels)
        self.layers = nn.ModuleList(DecoderLayer(channels, heads, dropout) for _ in range(layers))
        self.queries = nn.Parameter(torch.randn(num_classes, channels))
        self.presence = nn.Linear(channels, 2)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def no_weight_decay(self) -> set[str]:
        """Queries are embeddings."""
        return {"queries"}

    @in_type_of_weights
    def forward(self, patches: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Looks for every class among some patches.

        Args:
            patches: `(B, N, d)`.
            valid: those that exist `(B, N)`; None for all.

        Returns:
            Logits of (there, not there) for each class `(B, C, 2)`, and mask logits `(B, C, N)`.
        """
        patches = self.input_norm(self.input_proj(patches))
        queries = self.queries.expand(len(patches), -1, -1)
        masks = patches.new_zeros(())
        for layer in self.layers:
            queries, masks = layer(queries, patches, valid)
        return self.presence(queries), masks


def mask_losses(presence: Tensor, masks: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Presence, focal and Dice loss, unweighted (public ATM loss, on patches instead of pixels).

    Args:
        presence: `(B, C, 2)`.
        masks: mask logits `(B, C, N)`.
        targets: class of every patch `(B, N)`; a number outside the classes is no class and counts against all masks.
    """
    presence, masks = presence.float(), masks.float()
    classes = torch.arange(presence.shape[1], device=targets.device)
    truth = (targets[:, None] == classes[:, None]).float()
    there = truth.amax(dim=2)
    weights = torch.tensor([1.0, NO_OBJECT_WEIGHT], device=presence.device)
    presence_loss = F.cross_entropy(presence.transpose(1, 2), 1 - there.long(), weights)
    pairs = there.sum().clamp(min=1)  # classes that are there, over the batch
    probability = masks.sigmoid()
    right = probability * truth + (1 - probability) * (1 - truth)
    focal = F.binary_cross_entropy_with_logits(masks, truth, reduction="none") * (1 - right) ** FOCAL_GAMMA
    focal = (FOCAL_ALPHA * truth + (1 - FOCAL_ALPHA) * (1 - truth)) * focal
    dice = 1 - (2 * (probability * truth).sum(dim=2) + 1) / (probability.sum(dim=2) + truth.sum(dim=2) + 1)
    return presence_loss, (focal.mean(dim=2) * there).sum() / pairs, (dice * there).sum() / pairs
