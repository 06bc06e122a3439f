"""A timm transformer block taken apart, so that a reducer can act at any point of it.

`run_block` is the block as timm has it. The other functions are its pieces on packed rows; put together in order they
are the same computation.
"""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from timm.layers import DropPath
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.encoder.attention import attend
from tap.encoder.tokens import Layout, Tokens
from tap.errors import UserError

Part = Literal["q", "k", "v"]


def check_block(block: Any, name: str) -> None:
    """Refuses blocks whose pieces are not the ones this module knows.

    Raises:
        UserError: the model is not made of timm's plain pre-norm blocks.
    """
    if type(block) is not Block or type(block.attn) is not Attention:
        kind = f"{type(block).__name__}/{type(getattr(block, 'attn', None)).__name__}"
        raise UserError(f"{name}: blocks of type {kind} cannot be pruned; use a timm VisionTransformer of plain blocks")


def run_block(block: Any, tokens: Tokens) -> Tokens:
    """One whole block without any reduction."""
    if tokens.layout.uniform:
        return tokens.with_states(block(tokens.rectangle))
    hidden = block.norm1(tokens.x)
    query, key, value = (project(block.attn, hidden, part) for part in ("q", "k", "v"))
    return run_mlp(block, add_attention(block, tokens, hidden, query, key, value))


def project(attn: Any, hidden: Tensor, part: Part) -> Tensor:
    """One slice of the fused query-key-value projection (Sec. Task-conditioned selection).

    Args:
        attn: the block's attention.
        hidden: normalised rows `(T, d)`.
        part: which projection.

    Returns:
        `(T, H, d_h)`, query and key normalised where the model does so (qk-norm).
    """
    size = attn.attn_dim
    start = "qkv".index(part) * size
    bias = None if attn.qkv.bias is None else attn.qkv.bias[start : start + size]
    out = F.linear(hidden, attn.qkv.weight[start : start + size], bias).unflatten(-1, (attn.num_heads, -1))
    if part == "q":
        return attn.q_norm(out)
    return attn.k_norm(out) if part == "k" else out


def run_survivors(block: Any, tokens: Tokens, hidden: Tensor, key: Tensor) -> Tokens:
    """The rest of a block whose keys were computed for all candidates: queries and values only for what stays.

    Args:
        block: the transformer block.
        tokens: the surviving states.
        hidden: their normalised states `(T, d)`.
        key: their keys `(T, H, d_h)`.
    """
    query, value = project(block.attn, hidden, "q"), project(block.attn, hidden, "v")
    tokens = add_attention(block, tokens, hidden, query, key, value)
    del hidden, query, key, value  # the MLP is where memory peaks
    return run_mlp(block, tokens)


def add_attention(block: Any, tokens: Tokens, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tokens:
    """The attention sublayer with its residual connection, from projections that were computed before.

    Args:
        block: the transformer block.
        tokens: the states that enter it.
        hidden: their normalised states `(T, d)` (only read by a gated attention).
        query, key, value: `(T, H, d_h)`.
    """
    attn = block.attn
    out = attn.norm(attend(query, key, value, tokens.layout, attn.attn_drop.p if attn.training else 0.0))
    if attn.gate is not None:
        out = out * attn.gate(hidden).sigmoid()
    out = attn.proj_drop(attn.proj(out))
    return tokens.with_states(tokens.x + _drop_path(block.drop_path1, block.ls1(out), tokens.layout))


def run_mlp(block: Any, tokens: Tokens) -> Tokens:
    """The feed-forward sublayer with its residual connection."""
    out = block.ls2(block.mlp(block.norm2(tokens.x)))
    return tokens.with_states(tokens.x + _drop_path(block.drop_path2, out, tokens.layout))


def _drop_path(module: nn.Module, rows: Tensor, layout: Layout) -> Tensor:
    """Stochastic depth per image (timm's draws one value per entry of dimension 0, which here would be per row)."""
    if not isinstance(module, DropPath) or not module.training or module.drop_prob == 0.0:
        return rows
    keep = 1.0 - module.drop_prob
    draw = rows.new_empty(layout.batch).bernoulli_(keep)
    if module.scale_by_keep:
        draw = draw / keep
    return rows * draw.index_select(0, layout.image)[:, None]
