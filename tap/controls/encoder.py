"""The encoder of a trained TAP checkpoint under controls, in which nothing runs twice.

All controls of a batch see the same states up to the first pruning block. Fixed schedules that begin with the same
removals share the blocks behind these as well. Matching and recovery scale change no state of the encoder, so that all
controls of one allocation share one whole pass, and differ in what is stored beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tap.controls.policies import Control, Scale
from tap.core.budget import split_by_shares
from tap.encoder.recovery_buffer import Matching, RecoveryBuffer, RecoverySettings
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.encoder.trace import Trace
from tap.errors import UserError
from tap.reducers.tap import Tap

Reading = tuple[Matching, Scale]


@dataclass(frozen=True)
class Decisions:
    """What one call of the encoder decided.

    Attributes:
        removed_at: block before which each patch is removed `(B, N_1)`, int8; 0 for the retained ones. As the control's
            own removal records have it.
        removals: patches removed at each pruning block `(B, M)`, int64.
        budget: patches N_1 - K that every image must lose.
    """

    removed_at: Tensor
    removals: Tensor
    budget: int


class _Records(RecoveryBuffer):
    """The removal records of all readings of one pass: each matching rule and each recovery scale of their own."""

    def __init__(
        self, readings: Iterable[Reading], layers: Sequence[int], grid: tuple[int, int], ids: Tensor, seed: int
    ) -> None:
        super().__init__(RecoverySettings(seed=seed), grid, ids)
        self.layers = tuple(layers)
        self.readings = tuple(readings)
        self.buffers: dict[Reading, RecoveryBuffer] = {}
        for reading in dict.fromkeys(map(_stored, self.readings)):
            matching, scale = reading
            how = RecoverySettings(matching=matching, zero_fill=scale == "off", seed=seed)
            self.buffers[reading] = RecoveryBuffer(how, grid, ids)

    def store(
        self,
        layer: int,
        tokens: Tokens,
        keep: Tensor,
        counts: Sequence[int],
        keys: Tensor,
        scale: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> None:
        """As `RecoveryBuffer.store`, for every reading."""
        assert scale is not None
        for (_, given), buffer in self.buffers.items():
            alpha = scale
            if isinstance(given, tuple):
                alpha = torch.full_like(scale, given[self.layers.index(layer)])
            buffer.store(layer, tokens, keep, counts, keys, alpha, scores)

    def of(self, reading: Reading) -> RecoveryBuffer:
        """The records as one reading scales them."""
        buffer = self.buffers[_stored(reading)]
        return buffer.with_scale(reading[1]) if isinstance(reading[1], float) else buffer

    def grids(self, tokens: Tokens) -> dict[Reading, Tensor]:
        """The complete grid at a read point under every reading."""
        return {reading: self.of(reading).reconstruct(tokens) for reading in self.readings}

    def branch(self) -> _Records:
        """A copy that further removals do not reach."""
        other = copy(self)
        other.buffers = {}
        for reading, buffer in self.buffers.items():
            twin = copy(buffer)
            twin.records, twin._waiting = list(buffer.records), list(buffer._waiting)
            twin.removed_at = buffer.removed_at.clone()
            other.buffers[reading] = twin
        return other


def _stored(reading: Reading) -> Reading:
    """The reading whose records serve another one: endpoints are made of the learned one's."""
    matching, scale = reading
    return (matching, "learned") if isinstance(scale, float) else reading


@dataclass
class _Stage:
    """A pass that stands before a pruning block (or behind the last block).

    Attributes:
        layer: the next block, from 1.
        tokens: what enters it.
        records: removals so far.
        trace: decisions so far.
        grids: what was read so far, by reading.
    """

    layer: int
    tokens: Tokens
    records: _Records | None
    trace: Trace
    grids: list[dict[Reading, Tensor]] = field(default_factory=list)

    def branch(self) -> _Stage:
        trace = replace(
            self.trace, kept=dict(self.trace.kept), removed=dict(self.trace.removed), scales=dict(self.trace.scales)
        )
        records = None if self.records is None else self.records.branch()
        return replace(self, records=records, trace=trace, grids=list(self.grids))


@dataclass
class _Call:
    """What is known of one call: the stages of the latest pass, and where that has ended."""

    state: ForwardState
    stages: list[_Stage]
    path: tuple[int, ...] = ()
    schedule: tuple[float, ...] | None = None
    end: _Stage | None = None


class ControlledEncoder(nn.Module):
    """Takes the place of a TAP model's encoder; the rest of the model does not notice.

    A head may call its encoder several times for one prediction (sliding windows): calls are told apart by their number
    since `rewind`, which must be the same images in the same order for every control of a batch. Controls of one
    schedule should follow one another, and schedules come in ascending order of their removals, so that most is shared.

    Args:
        encoder: encoder of a trained TAP model.
        controls: all controls that will be asked for.

    Raises:
        UserError: the encoder has no register, removes nothing, or has a control in its settings already.

    Attributes:
        decisions: of every call since `rewind`.
        blocks_run: blocks that have run so far.
        blocks_alone: blocks that would have run if every control had had a pass of its own.
    """

    def __init__(self, encoder: SparseEncoder, controls: Iterable[Control]) -> None:
        super().__init__()
        reducer = encoder.reducer
        if not isinstance(reducer, Tap):
            raise UserError(f"controls: the checkpoint's method is '{reducer.name}', which has no register; name TAP's")
        if reducer.keep_rate == 1.0:
            raise UserError("controls: the checkpoint keeps every patch, so there is nothing to control")
        if reducer.gates is not None:
            raise UserError("controls: independent gates meet no budget, so no allocation can be put in their place")
        if encoder.read_blocks and (encoder.recovery.scale != "learned" or encoder.recovery.zero_fill):
            raise UserError("controls: the recovery of this run is a control already; name its `main` run")
        self.encoder = encoder
        self.vit, self.reducer = encoder.vit, reducer
        self.read_blocks, self.recovery = encoder.read_blocks, encoder.recovery
        self.controls = tuple(controls)
        self.control = self.controls[0]
        self.decisions: list[Decisions] = []
        self.blocks_run = self.blocks_alone = 0
        self._calls: list[_Call] = []

    @property
    def blocks(self) -> np.ndarray:
        """Blocks that have run so far, and that would have run alone `(2,)`."""
        return np.array([self.blocks_run, self.blocks_alone])

    def new_batch(self) -> None:
        """Forgets the images seen so far."""
        self._calls = []
        self.decisions = []

    def each(self, controls: Iterable[Control]) -> Iterator[Control]:
        """Controls one after the other for the images of a batch, which are new ones."""
        self.new_batch()
        for control in controls:
            self.rewind(control)
            yield control

    def rewind(self, control: Control) -> None:
        """The next calls are for the same images again, under another control.

        Raises:
            UserError: the control does not have one number for each pruning block.
            ValueError: it is none of those that were announced.
        """
        if control not in self.controls:
            raise ValueError(f"control '{control.name}' was not announced, so nothing was stored for it")
        layers = self.reducer.settings.layers
        for given in (control.schedule, control.scale):
            if isinstance(given, tuple) and len(given) != len(layers):
                raise UserError(
                    f"control '{control.name}': {len(given)} numbers for {len(layers)} pruning blocks; give one each"
                )
        self.control, self.decisions = control, []

    def forward(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """As `SparseEncoder.forward`, for the control that is set."""
        number, control = len(self.decisions), self.control
        if number == len(self._calls):
            self._calls.append(self._begin(images, sample_ids))
        call = self._calls[number]
        self.blocks_alone += len(self.vit.blocks)
        if call.end is None or call.schedule != control.schedule:
            self._run(call, control.schedule)
        end = call.end
        assert end is not None
        reading = (control.matching, control.scale)
        buffer = None if end.records is None else end.records.of(reading)
        counts = end.tokens.layout.counts
        end.trace.final_counts = end.tokens.layout.counts_tensor
        removed_at = _removed_at(end.trace, call.state) if buffer is None else buffer.removed_at
        self.decisions.append(Decisions(removed_at, end.trace.removals, call.state.patches - call.state.keep_count))
        grids = [grids[reading] for grids in end.grids]
        trace = end.trace if return_trace else None
        return EncoderOutput(end.tokens, grids, call.state.grid, trace, buffer, {}, counts)

    def pool(self, output: EncoderOutput) -> Tensor:
        """As `SparseEncoder.pool`."""
        return self.encoder.pool(output)

    def _readings(self, schedule: tuple[float, ...] | None) -> list[Reading]:
        same = [control for control in self.controls if control.schedule == schedule]
        return list(dict.fromkeys((control.matching, control.scale) for control in same))

    def _begin(self, images: Tensor, sample_ids: Tensor | None) -> _Call:
        """The blocks before the first pruning block, which no control changes."""
        tokens, state = self.encoder.begin(images, sample_ids, read=False)
        first = self.reducer.settings.layers[0]
        stage = _Stage(1, tokens, None, Trace(state.grid, state.sample_ids))
        every = list(dict.fromkeys((control.matching, control.scale) for control in self.controls))
        while stage.layer < first:
            layer = stage.layer
            stage.tokens = self.reducer.run_block(layer, self.vit.blocks[layer - 1], stage.tokens, state)
            self.blocks_run += 1
            if layer in self.read_blocks:
                grid = RecoveryBuffer(self.recovery, state.grid, state.sample_ids).reconstruct(stage.tokens)
                stage.grids.append(dict.fromkeys(every, grid))
            stage.layer += 1
        return _Call(state, [stage])

    def _run(self, call: _Call, schedule: tuple[float, ...] | None) -> None:
        """One pass from the last stage that it has in common with the latest one."""
        layers, state = self.reducer.settings.layers, call.state
        path: tuple[int, ...] = ()
        if schedule is not None:
            path = tuple(split_by_shares(schedule, state.patches - state.keep_count))
        same = self._readings(schedule)
        common = 0
        if path and self._shares_records(call, same):
            while common < len(layers) - 1 and call.path[: common + 1] == path[: common + 1]:
                common += 1
        del call.stages[common + 1 :]
        stage = call.stages[common].branch()
        if common == 0 and self.read_blocks:
            stage.records = _Records(same, layers, state.grid, state.sample_ids, self.recovery.seed)
        settings: Any = self.reducer.settings
        if schedule is not None:
            self.reducer.settings = replace(settings, schedule=schedule)
        try:
            while stage.layer <= len(self.vit.blocks):
                if stage.layer in layers[1:] and layers.index(stage.layer) == len(call.stages):
                    call.stages.append(stage)
                    stage = stage.branch()
                self._block(stage, state)
        finally:
            self.reducer.settings = settings
        call.end, call.schedule, call.path = stage, schedule, path

    def _shares_records(self, call: _Call, readings: list[Reading]) -> bool:
        """Whether the latest pass was one with a fixed schedule, and kept the records that another one needs."""
        if not call.path:
            return False
        records = call.stages[-1].records
        return records is None or set(records.readings) == set(readings)

    def _block(self, stage: _Stage, state: ForwardState) -> None:
        """One block, with what is read behind it."""
        own = replace(state, recovery=stage.records, trace=stage.trace, memory={})
        layer = stage.layer
        stage.tokens = self.reducer.run_block(layer, self.vit.blocks[layer - 1], stage.tokens, own)
        self.blocks_run += 1
        if layer in self.read_blocks:
            assert stage.records is not None
            stage.grids.append(stage.records.grids(stage.tokens))
        stage.layer += 1


def _removed_at(trace: Trace, state: ForwardState) -> Tensor:
    """The removal map of a pass that kept no records, from the patches that each block has left."""
    found = torch.zeros(len(state.sample_ids), state.patches, dtype=torch.int8, device=state.sample_ids.device)
    for layer in sorted(trace.kept, reverse=True):
        found.masked_fill_(~trace.kept[layer], layer)
    return found
