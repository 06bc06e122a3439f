"""Attention over packed sequences: one call for a rectangle, a variable-length kernel for everything else.

Dense and sparse encoders go through the same functions, so that a speed-up is never one of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from tap.encoder.tokens import Layout


def attend(query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float = 0.0) -> Tensor:
    """Softmax attention of each image's rows among themselves.

    Args:
        query, key, value: `(T, H, d_h)` rows in the layout's storage order.
        layout: which row belongs to which image.
        dropout: dropout rate of the attention weights.

    Returns:
        Attended values `(T, H * d_h)`.
    """
    if layout.uniform:
        return _rectangle(query, key, value, layout.batch, dropout)
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and dropout == 0.0:
        longest = layout.width + layout.prefix
        ends = layout.cu_seqlens
        out = varlen_attn(query, key, value, ends, ends, longest, longest)
        assert isinstance(out, Tensor)  # a pair only when the log-sum-exp is asked for
        return out.flatten(1)
    # Images of one length stand side by side (`Layout.build`), so that each length is one dense call without padding.
    # The pieces are views; only lengths are looped over, never images.
    pieces, row = [], 0
    for images, length in layout.runs:
        part = slice(row, row + images * length)
        pieces.append(_rectangle(query[part], key[part], value[part], images, dropout))
        row = part.stop
    return torch.cat(pieces)


def kernel_name(device: torch.device, dtype: torch.dtype) -> str:
    """What `attend` runs on a device, for the record of every timing."""
    if device.type == "cuda" and dtype in (torch.float16, torch.bfloat16):
        return "sdpa (rectangular), varlen_attn (ragged)"
    return "sdpa (one call per sequence length)"


def mean_incoming_attention(query: Tensor, key: Tensor, valid: Tensor | None = None, chunk: int = 256) -> Tensor:
    """Attention that each position receives, averaged over heads and query tokens (Sec. Controlled study).

    Args:
        query, key: `(B, S, H, d_h)`.
        valid: rows that exist `(B, S)`; None for all.
        chunk: query rows whose attention matrix is held at once.

    Returns:
        Mean attention probability `(B, S)` in float32; zero where not valid.
    """
    total = query.new_zeros(query.shape[:2], dtype=torch.float32)
    for weights in _attention_chunks(query, key, valid, chunk):
        total = total + weights.sum(dim=(1, 2))
    queries = query.shape[1] if valid is None else valid.sum(dim=1, keepdim=True)
    return total / (query.shape[2] * queries)


def incoming_attention(query: Tensor, key: Tensor, chunk: int = 256) -> tuple[Tensor, Tensor]:
    """Attention that each position receives from all heads and query tokens: mean and maximum (`tab:criteria`).

    Args:
        query, key: `(B, S, H, d_h)`.
        chunk: query rows whose attention matrix is held at once.

    Returns:
        Mean, with the bits of `mean_incoming_attention`, and maximum, each `(B, S)` in float32.
    """
    total = query.new_zeros(query.shape[:2], dtype=torch.float32)
    largest = torch.zeros_like(total)
    for weights in _attention_chunks(query, key, None, chunk):
        total = total + weights.sum(dim=(1, 2))
        largest = torch.maximum(largest, weights.amax(dim=(1, 2)))
    return total / (query.shape[2] * query.shape[1]), largest


def class_attention(query: Tensor, key: Tensor) -> Tensor:
    """Post-softmax attention row of the class token, averaged over heads (the score of EViT).

    Args:
        query: the class token's query `(B, H, d_h)`.
        key: keys of the whole sequence `(B, S, H, d_h)`.

    Returns:
        Attention probability of every position `(B, S)` in float32.
    """
    with torch.autocast(query.device.type, enabled=False):
        logits = torch.einsum("bhd,bshd->bhs", query.float(), key.float()) * query.shape[-1] ** -0.5
    return logits.softmax(dim=-1).mean(dim=1)


def _attention_chunks(query: Tensor, key: Tensor, valid: Tensor | None, chunk: int) -> Iterator[Tensor]:
    """Attention probabilities of some queries at a time, `(B, H, at most chunk, S)` float32; zero where not valid."""
    query = query.transpose(1, 2).float() * query.shape[-1] ** -0.5
    key = key.transpose(1, 2).float()
    for start in range(0, query.shape[2], chunk):
        with torch.autocast(query.device.type, enabled=False):  # it would round the logits, and with them the ranking
            logits = query[:, :, start : start + chunk] @ key.transpose(-2, -1)
        if valid is None:
            yield logits.softmax(dim=-1)
        else:
            weights = logits.masked_fill(~valid[:, None, None], float("-inf")).softmax(dim=-1)
            yield weights * valid[:, None, start : start + chunk, None]


def _rectangle(query: Tensor, key: Tensor, value: Tensor, batch: int, dropout: float) -> Tensor:
    def heads_first(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (batch, -1)).transpose(1, 2)

    out = F.scaled_dot_product_attention(heads_first(query), heads_first(key), heads_first(value), dropout_p=dropout)
    return out.transpose(1, 2).reshape(query.shape[0], -1)
