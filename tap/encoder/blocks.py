"""A timm transformer block taken apart, so that a reducer can act at any point of it.

`run_block` is the block as timm has it. The other functions are its pieces on packed rows; put together in order they
are the same computation. A block of a ViTDet trunk (`GridAttention`) has the same pieces. It attends globally, prefix
rows included, or within windows, which prefix rows bypass unchanged (Sec. Sparse window attention).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from timm.layers import DropPath, Mlp
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tap.encoder.attention import attend, class_attention, mean_incoming_attention
from tap.encoder.low_rank import LowRankLinear
from tap.encoder.patch_positions import Groups, PatchPositions, Windows
from tap.encoder.relative import fold
from tap.encoder.tokens import Tokens
from tap.encoder.vitdet import GridAttention
from tap.errors import UserError

Part = Literal["q", "k", "v"]

HIDDEN = -1e4
"""Logit of a key that is not seen: no share in any precision, and no NaN where nothing is seen."""


def check_block(block: Any, name: str) -> None:
    """Refuses blocks whose pieces are not the ones this module knows.

    Raises:
        UserError: the model is not made of timm's plain pre-norm blocks.
    """
    if type(block) is not Block or type(block.attn) not in (Attention, GridAttention):
        kind = f"{type(block).__name__}/{type(getattr(block, 'attn', None)).__name__}"
        raise UserError(f"{name}: blocks of type {kind} cannot be pruned; use a timm VisionTransformer of plain blocks")


def run_block(block: Any, tokens: Tokens, as_timm: bool = False) -> Tokens:
    """One whole block without any reduction.

    Args:
        block: the transformer block.
        tokens: the states that enter it.
        as_timm: by timm's own forward where the rows allow it, and not by the pieces here, which give the same bits and
            without gradients need less memory. With gradients, or where a hook listens, it is always so.
    """
    if not recomputes(block):
        return _run_block(block, tokens, as_timm or torch.is_grad_enabled())
    x = checkpoint(lambda x: _run_block(block, tokens.with_states(x), True).x, tokens.x, use_reentrant=False)
    return tokens.with_states(x)


def recomputes(block: Any) -> bool:
    """Whether a block's activations are computed again in the backward pass instead of kept (gradient checkpointing).

    `block.grad_checkpointing` switches it on; decisions of a method are never taken twice.
    """
    return getattr(block, "grad_checkpointing", False) and torch.is_grad_enabled()


def _run_block(block: Any, tokens: Tokens, as_timm: bool) -> Tokens:
    windows = _windows(block.attn, tokens)
    if windows is not None:
        return _run_window_block(block, tokens, windows)
    if (as_timm or _hooked(block, block.attn)) and tokens.layout.uniform and type(block.attn) is Attention:
        return tokens.with_states(block(tokens.rectangle))
    tokens = _add_attention(block, tokens, _projected(block, tokens.x))
    return _run_mlp(block, tokens)


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
    if isinstance(attn.qkv, LowRankLinear):
        out = attn.qkv.rows(hidden, start, start + size)
    else:
        bias = None if attn.qkv.bias is None else attn.qkv.bias[start : start + size]
        out = F.linear(hidden, attn.qkv.weight[start : start + size], bias)
    out = out.unflatten(-1, (attn.num_heads, -1))
    if part == "q":
        return attn.q_norm(out)
    return attn.k_norm(out) if part == "k" else out


def project_all(attn: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value by the fused projection.

    Args:
        attn: the block's attention.
        hidden: normalised rows `(T, d)`.

    Returns:
        `(T, H, d_h)` each, query and key normalised where the model does so (qk-norm).
    """
    query, key, value = attn.qkv(hidden).unflatten(-1, (3, attn.num_heads, -1)).unbind(1)
    return attn.q_norm(query), attn.k_norm(key), value


def attend_survivors(block: Any, tokens: Tokens, parts: list[Tensor]) -> Tokens:
    """The attention sublayer of a block whose keys were computed for all candidates: the rest only for what stays.

    Args:
        block: the transformer block.
        tokens: the surviving states.
        parts: their normalised states `(T, d)` and keys `(T, H, d_h)`. The list is emptied, so that nobody holds what
            is used up when memory peaks; the caller lets go of those of the candidates before.
    """
    if not recomputes(block):
        return _attend_survivors(block, tokens, parts)

    def states(x: Tensor, *parts: Tensor) -> Tensor:
        return _attend_survivors(block, tokens.with_states(x), list(parts)).x

    return tokens.with_states(checkpoint(states, tokens.x, *parts, use_reentrant=False))


def _attend_survivors(block: Any, tokens: Tokens, parts: list[Tensor]) -> Tokens:
    hidden = parts[0]
    parts[1:] = [project(block.attn, hidden, "q"), parts[1], project(block.attn, hidden, "v")]
    del hidden
    return _add_attention(block, tokens, parts)


def add_attention(
    block: Any,
    tokens: Tokens,
    hidden: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
) -> Tokens:
    """The attention sublayer with its residual connection, from projections that were computed before.

    Args:
        block: the transformer block.
        tokens: the states that enter it.
        hidden: their normalised states `(T, d)` (only read by a gated attention).
        query, key, value: `(T, H, d_h)`.
        bias: what is added to all logits of a key `(T,)`; zero for places beyond the grid's edge.
    """
    return _add_attention(block, tokens, [hidden, query, key, value], bias)


def _projected(block: Any, x: Tensor) -> list[Tensor]:
    """What a block's attention works on: normalised rows `(T, d)`, and their queries, keys and values."""
    hidden = block.norm1(x)
    return [hidden, *project_all(block.attn, hidden)]


def _add_attention(block: Any, tokens: Tokens, parts: list[Tensor], bias: Tensor | None = None) -> Tokens:
    """`add_attention` on what `_projected` gives; the list is emptied (`_attended`)."""
    windows = _windows(block.attn, tokens)
    if windows is None:
        out = _attended(block.attn, parts, tokens, None, bias)
        return tokens.with_states(tokens.x + _drop_path(block.drop_path1, block.ls1(out), tokens, None))
    parts[:] = [part.index_select(0, windows.patch_rows) for part in parts]
    bias = None if bias is None else bias.index_select(0, windows.patch_rows)
    out = block.ls1(_attended(block.attn, parts, tokens, windows, bias))
    out = _drop_path(block.drop_path1, out, tokens, windows).to(tokens.x.dtype)
    return tokens.with_states(tokens.x.index_add(0, windows.patch_rows, out))


def run_masked(block: Any, tokens: Tokens, seen: Tensor) -> Tokens:
    """One whole block in which rows attend to some rows only; a row that nobody sees is computed like the others.

    Args:
        block: the transformer block.
        tokens: the states that enter it.
        seen: rows that are seen `(T,)`, bool.
    """
    hidden = block.norm1(tokens.x)
    query, key, value = project_all(block.attn, hidden)
    bias = torch.where(seen, 0.0, HIDDEN).to(query.dtype)
    return run_mlp(block, add_attention(block, tokens, hidden, query, key, value, bias))


def add_attended(block: Any, tokens: Tokens, hidden: Tensor, out: Tensor) -> Tokens:
    """What follows the attention itself: output projection and residual connection.

    Args:
        block: the transformer block, with global attention.
        tokens: the states that enter it.
        hidden: their normalised states `(T, d)` (only read by a gated attention).
        out: attended values `(T, H * d_h)`.
    """
    out = block.ls1(project_back(block.attn, hidden, out))
    return tokens.with_states(tokens.x + _drop_path(block.drop_path1, out, tokens, None))


def run_mlp(block: Any, tokens: Tokens) -> Tokens:
    """The feed-forward sublayer with its residual connection."""
    if not recomputes(block):
        return _run_mlp(block, tokens)
    x = checkpoint(lambda x: _run_mlp(block, tokens.with_states(x)).x, tokens.x, use_reentrant=False)
    return tokens.with_states(x)


def _run_mlp(block: Any, tokens: Tokens) -> Tokens:
    windows = _windows(block.attn, tokens)
    if windows is None:
        return tokens.with_states(_add_mlp(block, tokens.x, tokens, None))
    patches = _add_mlp(block, tokens.x.index_select(0, windows.patch_rows), tokens, windows)
    return tokens.with_states(tokens.x.index_copy(0, windows.patch_rows, patches))


def attention_operands(block: Any, tokens: Tokens, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of a block with global attention as the functions take them that score by attention.

    Relative position is folded in, so that the scores are those of the attention that the block computes
    (Sec. Controlled study); with the scale of the longer rows, which those functions apply.

    Args:
        block: the transformer block.
        tokens: the states that enter it; all images have the same number of rows.
        query, key: `(T, H, d_h)`, as projected.

    Returns:
        `(B, S, H, d)`, in float32 where relative position is in them.
    """
    query, key = _folded(block, tokens, query, key)
    batch = tokens.layout.batch
    return query.unflatten(0, (batch, -1)), key.unflatten(0, (batch, -1))


def _folded(block: Any, tokens: Tokens, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys with relative position in them `(T, H, d)`, in the scale of the longer rows."""
    tables = _tables(block.attn)
    assert _windows(block.attn, tokens) is None, "attention within windows is no score of a whole image"
    if tables is not None:
        with torch.autocast(query.device.type, enabled=False):  # the ranking is one of float32 scores
            query, key = fold(query.float(), key.float(), tables, _patch_positions(tokens).whole)
        query = query * query.shape[-1] ** 0.5
    return query, key


def received_attention(block: Any, tokens: Tokens, query: Tensor, key: Tensor, from_class: bool) -> Tensor:
    """Attention probability that each patch receives, averaged over heads `(B, N)`, float32.

    Args:
        block: the transformer block, with global attention.
        tokens: the states that enter it; all images have the same number of rows.
        query, key: `(T, H, d_h)`, as projected.
        from_class: from the class token alone; else the mean over all queries.
    """
    query, key = attention_operands(block, tokens, query, key)
    scores = class_attention(query[:, 0], key) if from_class else mean_incoming_attention(query, key)
    return scores[:, tokens.layout.prefix :]


def ragged_incoming_attention(block: Any, tokens: Tokens, query: Tensor, key: Tensor) -> Tensor:
    """Mean attention that each patch receives from all heads and rows of its image, on the padded grid `(B, N)`.

    Images are taken one by one where their numbers of rows differ, so that none depends on its batch mates.

    Args:
        block: the transformer block, with global attention.
        tokens: the states that enter it.
        query, key: `(T, H, d_h)`, as projected.

    Returns:
        float32; zero at padding.
    """
    layout = tokens.layout
    if layout.uniform:
        return received_attention(block, tokens, query, key, from_class=False)
    query, key = _folded(block, tokens, query, key)
    scores = query.new_zeros(layout.batch, layout.width, dtype=torch.float32)
    for image, (start, count) in enumerate(zip(layout.starts.tolist(), layout.counts, strict=True)):
        rows = slice(start, start + layout.prefix + count)
        scores[image, :count] = mean_incoming_attention(query[None, rows], key[None, rows])[0, layout.prefix :]
    return scores


def _run_window_block(block: Any, tokens: Tokens, windows: Windows) -> Tokens:
    """A whole block in window order: patches are gathered once and put back once, prefix rows stay as they are."""
    x = tokens.x.index_select(0, windows.patch_rows)
    out = _attended(block.attn, _projected(block, x), tokens, windows)
    x = x + _drop_path(block.drop_path1, block.ls1(out), tokens, windows)
    del out
    return tokens.with_states(tokens.x.index_copy(0, windows.patch_rows, _add_mlp(block, x, tokens, windows)))


def _add_mlp(block: Any, x: Tensor, tokens: Tokens, windows: Windows | None) -> Tensor:
    return x + _drop_path(block.drop_path2, block.ls2(apply_mlp(block.mlp, block.norm2(x))), tokens, windows)


def apply_mlp(mlp: Any, hidden: Tensor) -> Tensor:
    """timm's MLP; where nothing is learned, its wide activations exist once instead of twice."""
    if torch.is_grad_enabled() or type(mlp) is not Mlp or type(mlp.act) is not nn.GELU or _hooked(mlp, mlp.act):
        return mlp(hidden)
    wide = mlp.fc1(hidden)
    torch.ops.aten.gelu_(wide, approximate=mlp.act.approximate)
    return mlp.drop2(mlp.fc2(mlp.norm(mlp.drop1(wide))))


def _hooked(*modules: nn.Module) -> bool:
    """Whether somebody listens at a module, who would hear nothing of its pieces."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def _attended(
    attn: Any, parts: list[Tensor], tokens: Tokens, windows: Windows | None, bias: Tensor | None = None
) -> Tensor:
    """What the attention module gives for all rows, or for the patches in window order.

    `parts` are their normalised states, queries, keys and values. The list is emptied: with relative position queries
    and keys are copied, memory peaks there, and what a caller holds could not be freed.
    """
    hidden, query, key, value = parts
    parts.clear()
    gated = None if attn.gate is None else hidden
    del hidden
    groups: Groups = tokens.layout if windows is None else windows.frame.groups
    scale, tables = None, _tables(attn)
    real = None if windows is None else windows.real
    if windows is not None and real is not None:
        query, key, value = (
            part.expand(len(windows.rows), -1, -1).index_copy(0, real, own)
            for part, own in zip(_padding(attn, query.dtype), (query, key, value), strict=True)
        )
        bias = None if bias is None else bias.new_zeros(len(windows.rows)).index_copy(0, real, bias)
    if tables is not None:
        query, key = fold(query, key, tables, _patch_positions(tokens).whole if windows is None else windows.frame)
        scale = 1.0
        if bias is not None:  # as one more entry of the longer rows
            ones, column = query.new_ones(*query.shape[:2], 1), bias.to(key.dtype)[:, None, None]
            query, key = torch.cat([query, ones], dim=-1), torch.cat([key, column.expand(*key.shape[:2], 1)], dim=-1)
            bias = None
    out = attend(query, key, value, groups, attn.attn_drop.p if attn.training else 0.0, scale, bias)
    return project_back(attn, gated, out if real is None else out.index_select(0, real))


def project_back(attn: Any, hidden: Tensor | None, out: Tensor) -> Tensor:
    """Output projection of attended values `(T, H * d_h)`; only a gated attention reads the normalised states."""
    out = attn.norm(out)
    if attn.gate is not None:
        out = out * attn.gate(hidden).sigmoid()
    return attn.proj_drop(attn.proj(out))


def _padding(attn: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Projections beyond the grid's edge, which are those of a zero vector `(1, H, d_h)` (public ViTDet)."""
    query, key, value = project_all(attn, attn.qkv.weight.new_zeros(1, attn.qkv.in_features))
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _windows(attn: Any, tokens: Tokens) -> Windows | None:
    """The patches by window, where a block attends within windows."""
    if type(attn) is not GridAttention or attn.side is None:
        return None
    return _patch_positions(tokens).windows(attn.side, attn.padded)


def _tables(attn: Any) -> tuple[Tensor, Tensor] | None:
    return attn.tables if type(attn) is GridAttention else None


def _patch_positions(tokens: Tokens) -> PatchPositions:
    assert tokens.patch_positions is not None, "a ViTDet trunk needs tokens with patch positions"
    return tokens.patch_positions


def _drop_path(module: nn.Module, rows: Tensor, tokens: Tokens, windows: Windows | None) -> Tensor:
    """Stochastic depth per image (timm's draws one value per entry of dimension 0, which here would be per row)."""
    if not isinstance(module, DropPath) or not module.training or module.drop_prob == 0.0:
        return rows
    keep = 1.0 - module.drop_prob
    draw = rows.new_empty(tokens.layout.batch).bernoulli_(keep)
    if module.scale_by_keep:
        draw = draw / keep
    image = tokens.layout.image if windows is None else windows.patch_image
    return rows * draw.index_select(0, image)[:, None]
