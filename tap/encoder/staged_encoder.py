"""The sparse encoder with inference in stages of static shape, for devices on which launches decide.

A class of its own, so that nobody who runs the plain encoder depends on the code of the stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tap.core.budget import keep_count
from tap.encoder.layout import Layout, on_device
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.staged import Stages
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError


class StagedEncoder(SparseEncoder):
    """The same encoder as `SparseEncoder`, executed in stages (`tap.encoder.staged`) where patches are removed.

    Args:
        vit, reducer, read_blocks, recovery: as for `SparseEncoder`, whose modules may be shared.

    Raises:
        UserError: as `SparseEncoder`, or the method, the trunk or the recovery cannot be staged.
    """

    def __init__(
        self,
        vit: VisionTransformer,
        reducer: Any,
        read_blocks: Sequence[int] = (),
        recovery: RecoverySettings | None = None,
    ) -> None:
        super().__init__(vit, reducer, read_blocks, recovery)
        if self.recovery.matching != "key" or self.recovery.zero_fill:
            raise UserError("execution: 'staged' matches by keys alone; use 'plain' for other ways of recovery")
        scale = None if self.recovery.scale == "learned" else self.recovery.scale
        self.stages = Stages(self.vit, self.reducer, self.read_blocks, scale)

    def forward(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """Encodes a batch; arguments and errors as for `SparseEncoder`. In training the plain encoder runs."""
        rows, columns = self._grid(images)
        if self.training or keep_count(rows * columns, self.reducer.keep_rate) == rows * columns:
            return super().forward(images, sample_ids, return_trace)
        return self._run_stages(*self.begin(images, sample_ids, return_trace))

    def _run_stages(self, tokens: Tokens, state: ForwardState) -> EncoderOutput:
        found = self.stages(tokens.rectangle, state.grid)
        counts = (state.keep_count,) * len(found.x)
        layout = Layout.build(tokens.layout.prefix, counts, found.x.device)
        if state.trace is not None:
            before = tokens.layout.counts_tensor
            for layer, kept in found.kept.items():
                after = kept.sum(dim=1)
                state.trace.kept[layer], state.trace.removed[layer] = kept, before - after
                before = after
            state.trace.scales |= found.scales
            state.trace.final_counts = on_device(counts, found.x.device)
        left = Tokens(found.x.flatten(0, 1), layout, found.index)
        return EncoderOutput(left, found.grids, state.grid, state.trace, None, state.memory, counts)
