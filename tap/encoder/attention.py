"""Attention over packed sequences: one call for a rectangle, a variable-length kernel for everything else.

Dense and sparse encoders go through the same functions, so that a speed-up is never one of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from tap.encoder.patch_positions import Groups

_LOGITS = 4_000_000
"""Logits that are held at once where queries are longer than values (`_by_rows`): 16 MB in float32."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    groups: Groups,
    dropout: float = 0.0,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Softmax attention of each group's rows among themselves; a group is an image, or a window of one.

    Args:
        query, key, value: `(T, H, d_h)` rows, group after group. Queries and keys may be longer than values.
        groups: which row belongs to which group.
        dropout: dropout rate of the attention weights.
        scale: factor of the logits; None is d_h^-1/2 of the queries.
        bias: what is added to all logits of a key `(T,)`, such as the logarithm of how many patches it stands for; only
            where queries, keys and values are equally long.

    Returns:
        Attended values `(T, H * d_h)`.
    """
    if groups.uniform:
        return _rectangle(query, key, value, groups.batch, dropout, scale, bias)
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and dropout == 0.0 and bias is None:
        return _variable_length(query, key, value, groups, scale)
    # Groups of one length stand side by side (`Layout.build`), so that each length is one dense call without padding.
    # The pieces are views; only lengths are looped over, never images or windows.
    pieces, row = [], 0
    for number, length in groups.runs:
        part = slice(row, row + number * length)
        own = None if bias is None else bias[part]
        pieces.append(_rectangle(query[part], key[part], value[part], number, dropout, scale, own))
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


def class_attention(query: Tensor, key: Tensor, bias: Tensor | None = None) -> Tensor:
    """Post-softmax attention row of the class token, averaged over heads (the score of EViT).

    Args:
        query: the class token's query `(B, H, d_h)`.
        key: keys of the whole sequence `(B, S, H, d_h)`.
        bias: what is added to all logits of a key `(B, S)`; minus infinity where there is no row.

    Returns:
        Attention probability of every position `(B, S)` in float32.
    """
    with torch.autocast(query.device.type, enabled=False):
        logits = torch.einsum("bhd,bshd->bhs", query.float(), key.float()) * query.shape[-1] ** -0.5
    if bias is not None:
        logits = logits + bias.unsqueeze(1)
    return logits.softmax(dim=-1).mean(dim=1)


def soft_attention(
    query: Tensor, key: Tensor, value: Tensor, policy: Tensor, bias: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Attention in which every key has a weight, for training with removals that are only marked.

    The weight multiplies the exponentials, so that it can learn; a row always sees itself in full.

    Args:
        query, key, value: `(B, S, H, d_h)`.
        policy: weight of every key `(B, S)`, 0 or 1 in value, float32.
        bias: what is added to all logits of a key `(B, S)`.
        eps: spread over all keys, against empty rows.

    Returns:
        Attended values `(B * S, H * d_h)`, and the weights `(B, H, S, S)` in float32.
    """
    batch, length, _, width = query.shape
    with torch.autocast(query.device.type, enabled=False):
        logits = query.transpose(1, 2).float() @ key.permute(0, 2, 3, 1).float() * width**-0.5
        if bias is not None:
            logits = logits + bias[:, None, None].float()
        itself = torch.eye(length, dtype=torch.float32, device=query.device)
        seen = policy[:, None, None].float()
        seen = seen + (1.0 - seen) * itself
        power = (logits - logits.amax(dim=-1, keepdim=True)).exp() * seen
        weights = (power + eps / length) / (power.sum(dim=-1, keepdim=True) + eps)
        out = weights.to(value.dtype) @ value.transpose(1, 2)
    return out.transpose(1, 2).reshape(batch * length, -1), weights


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


def _rectangle(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    batch: int,
    dropout: float,
    scale: float | None,
    bias: Tensor | None,
) -> Tensor:
    rows = len(query)
    query, key, value = (part.unflatten(0, (batch, -1)).transpose(1, 2) for part in (query, key, value))
    if query.shape[-1] == value.shape[-1] or query.is_cuda:
        mask = None if bias is None else bias.to(query.dtype).view(batch, 1, 1, -1)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
    else:
        assert bias is None
        out = _by_rows(query, key, value, dropout, scale)
    return out.transpose(1, 2).reshape(rows, -1)


def _by_rows(query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float | None) -> Tensor:
    """Attention of `(B, H, S, d_h)` with queries and keys longer than values, some query rows after the others.

    The fused CPU kernel wants all widths equal, and padding the values costs more than it saves. Here no more logits
    exist at once than `_LOGITS`.
    """
    key = key.transpose(-2, -1)
    query = query * (query.shape[-1] ** -0.5) if scale is None else query if scale == 1.0 else query * scale
    step = max(1, _LOGITS // (query[:, :, 0, 0].numel() * key.shape[-1]))
    return torch.cat([_some_rows(part, key, value, dropout) for part in query.split(step, dim=2)], dim=2)


def _some_rows(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    weights = (query @ key).softmax(dim=-1).to(value.dtype)  # autocast may have made it float32
    return (F.dropout(weights, dropout) if dropout else weights) @ value


def _variable_length(query: Tensor, key: Tensor, value: Tensor, groups: Groups, scale: float | None) -> Tensor:
    """One call of the variable-length kernel, which wants one width for all and a multiple of 8."""
    width = value.shape[-1]
    if query.shape[-1] != width:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        common = -(-query.shape[-1] // 8) * 8
        query, key, value = (F.pad(part, (0, common - part.shape[-1])) for part in (query, key, value))
    ends = groups.cu_seqlens
    out = varlen_attn(query, key, value, ends, ends, groups.longest, groups.longest, scale=scale)
    assert isinstance(out, Tensor)  # a pair only when the log-sum-exp is asked for
    return out[..., :width].flatten(1)
