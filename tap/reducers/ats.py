"""ATS: draws patches by the inverse of the cumulative distribution of their significance."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.core.selection import select
from tap.encoder.attention import class_attention
from tap.encoder.blocks import add_attention, project_all, run_block, run_mlp
from tap.encoder.layout import Layout
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer, ReducerSettings, remove
from tap.reducers.costs import Cost, class_row
from tap.reducers.registry import register

METHOD = Method(calibrated=True)
ROW = Row(
    "ATS",
    tasks=("cls",),
    order=60,
    in_paper=True,
    origin=Origin(
        "adaptivetokensampling/ATS",
        "9271257",
        "Apache-2.0",
        path="attention sampling",
        adapted=(
            "the number of samples is calibrated to a mean of K",
            "no sampling in the last block",
            "the draw of an image does not depend on its batch",
        ),
    ),
)


@register(METHOD)
class Ats(Reducer):
    """Samples at evenly spaced points; patches that are drawn more than once make the counts differ."""

    calibrated_first = True
    threshold_range = (0.0, 4096.0)  # a point of its own for nearly every patch, however uneven the scores

    threshold: Tensor
    """Samples of a block as a share of the image's patches; above 1 for counts that fewer samples do not reach."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        if not settings.class_token:
            raise UserError("method: 'ats' ranks by the class token's attention; use a model with a class token")
        first, last = self.options.first_block, self.options.last_block or settings.depth - 1
        if not first <= last <= settings.depth:
            raise UserError(
                f"options.ats: no block from {first} to {last} in a model with {settings.depth}; set first_block and "
                "last_block"
            )
        self.blocks = range(first, last + 1)
        self.register_buffer("threshold", torch.tensor(float(self.options.threshold)))

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every patch, so that the drawn ones have seen all values; then removes and runs the MLP."""
        if layer not in self.blocks or state.keep_count == state.patches:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        scores = significance(tokens, query, keys, value)
        points = (self.threshold.double() * state.patches).round().clamp(min=1)
        keep = draw(scores, points, tokens.layout)
        if self.options.most is not None:
            left = keep.sum(dim=1).clamp(max=self.options.most)
            scores = scores.masked_fill(~keep, -1.0)
            keep = select(scores, tokens.layout.counts_tensor - left, tokens.layout.valid)
        tokens = add_attention(block, tokens, hidden, query, keys, value)
        counts = keep.sum(dim=1).tolist()  # the one host read
        _, tokens = remove(layer, tokens, keep, counts, state, keys, scores=scores)
        return run_mlp(block, tokens)


def significance(tokens: Tokens, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Class attention times the norm of the value, over its sum in the image `(B, N)`, float32; 0 on padding.

    Args:
        tokens: the sequence.
        query, key, value: `(T, H, d_h)`.
    """
    layout = tokens.layout
    prefix = layout.starts[:, None] + torch.arange(layout.prefix, device=layout.device)
    rows, bias = torch.cat([prefix, layout.grid_rows], dim=1), None
    if layout.valid is not None:
        bias = F.pad(torch.zeros(layout.valid.shape, device=layout.device), (layout.prefix, 0))
        bias[:, layout.prefix :].masked_fill_(~layout.valid, float("-inf"))
    attention = class_attention(query[prefix[:, 0]], key[rows], bias)[:, layout.prefix :]
    score = attention * value.float().flatten(1).norm(dim=1)[layout.grid_rows]  # 0 on padding, whose attention is
    return score / score.sum(dim=1, keepdim=True)


def draw(scores: Tensor, points: Tensor, layout: Layout) -> Tensor:
    """Inverse transform sampling: which patches are nearest to one of the evenly spaced points at least `(B, N)`.

    Patches lie on [0, 1] in order of increasing score, each at the cumulative score up to it (rescaled, so that the
    first is at 0 and the last at 1). The points go from the second patch to the last. Points are counted between the
    middles of neighbours, without a table of patches and points; a point in the middle belongs to the lower patch.

    Args:
        scores: not negative `(B, N)`; 0 on padding. Of equal scores the lower column counts as the larger.
        points: how many points `()`, a whole number of at least 1; the only one is at 1.
        layout: says which columns hold a patch.
    """
    columns = scores.shape[1]
    ranked = torch.nan_to_num(scores.detach().double())
    if layout.valid is not None:
        ranked = ranked.masked_fill(~layout.valid, -1.0)
    order = columns - 1 - ranked.flip(1).argsort(dim=1, stable=True)  # ascending, padding first
    height = ranked.gather(1, order).clamp(min=0.0).cumsum(dim=1)
    first = columns - layout.counts_tensor[:, None]  # place of the lowest patch
    low = height.gather(1, first)
    spread = height[:, -1:] - low
    height = (height - low) / spread
    start = height.masked_fill(height <= 0, float("inf")).amin(dim=1, keepdim=True)
    start = torch.where(points > 1, start, 1.0)
    step = (1.0 - start) / (points - 1).clamp(min=1)
    middle = 0.5 * (height[:, :-1] + height[:, 1:])
    below = (((middle - start) / step).floor() + 1).clamp(min=0)  # points up to each middle
    below = torch.minimum(below, points)
    below = F.pad(torch.cat([below, points.expand(len(below), 1)], dim=1), (1, 0))
    drawn = torch.zeros_like(scores, dtype=torch.bool).scatter(1, order, below.diff(dim=1) > 0)
    # Where all patches but one have no score (or there is only one) nothing can be placed, and everything stays.
    drawn = drawn | ~(spread > 0)
    return drawn if layout.valid is None else drawn & layout.valid


COST = Cost("mlp", own=class_row)
