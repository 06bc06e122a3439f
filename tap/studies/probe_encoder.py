"""The encoder of a frozen checkpoint that prunes one block by one criterion, and does nothing twice (Sec. Protocol).

All probes of a batch see the same dense states up to the probed block. They are computed once and kept; a probe runs
the pruned block and those behind it, and two recovery endpoints share even these. Probes of a batch must come in
ascending order of their block, the dense pass last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tap.core.budget import keep_count
from tap.criteria.base import Criterion, ProbeInputs
from tap.encoder.attention import incoming_attention
from tap.encoder.blocks import attend_survivors, attention_operands, project, run_block, run_mlp
from tap.encoder.recovery_buffer import RecoveryBuffer, RecoverySettings
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.encoder.trace import Trace
from tap.errors import UserError
from tap.reducers.base import remove


@dataclass(frozen=True)
class Probe:
    """One pruned block of a frozen model.

    Attributes:
        layer: the block, from 1.
        criterion: which patches stay.
        alpha: recovery endpoint of a dense head: 1 is the full offset, 0 the stand-in alone.
    """

    layer: int
    criterion: Criterion
    alpha: float = 1.0


@dataclass(frozen=True)
class FrozenBlock:
    """A block before its attention: what all criteria look at.

    Attributes:
        block: the transformer block.
        tokens: dense states that enter it.
        hidden: the same behind the first LayerNorm `(T, d)`.
        keys: projected keys `(T, H, d_h)`.
        inputs: what a criterion sees.
    """

    block: nn.Module
    tokens: Tokens
    hidden: Tensor
    keys: Tensor
    inputs: ProbeInputs

    @classmethod
    def of(
        cls, layer: int, block: nn.Module, tokens: Tokens, state: ForwardState, seed: int, attention: bool
    ) -> FrozenBlock:
        """Projects keys, and with `attention` queries too, for the attention matrix of the frozen block."""
        batch, prefix = tokens.layout.batch, tokens.layout.prefix
        hidden = block.norm1(tokens.x)
        keys = project(block.attn, hidden, "k")
        by_image = keys.unflatten(0, (batch, -1))
        mean = largest = keys.new_zeros(batch, state.patches, dtype=torch.float32)
        if attention:
            operands = attention_operands(block, tokens, project(block.attn, hidden, "q"), keys)
            mean, largest = (values[:, prefix:] for values in incoming_attention(*operands))
        features = tokens.rectangle[:, prefix:]
        seen = by_image[:, prefix:].flatten(2)
        inputs = ProbeInputs(features, seen, mean, largest, state.grid, state.sample_ids, layer, seed)
        return cls(block, tokens, hidden, keys, inputs)

    def pruned(self, criterion: Criterion, count: int, state: ForwardState) -> Tokens:
        """Runs the block on the patches that a criterion keeps; they are removed before its attention."""
        inputs, batch = self.inputs, self.tokens.layout.batch
        if count == inputs.patches:
            return run_block(self.block, self.tokens)
        kept = criterion.keep(inputs, count)
        keep = torch.zeros(batch, inputs.patches, dtype=torch.bool, device=kept.device).scatter_(1, kept, True)
        rows, survivors = remove(inputs.layer, self.tokens, keep, [count] * batch, state, self.keys)
        parts = [part.index_select(0, rows) for part in (self.hidden, self.keys)]
        survivors = attend_survivors(self.block, survivors, parts)
        return run_mlp(self.block, survivors)


@dataclass
class _Pass:
    """What is known of one call: the dense states up to some block, and the latest pruned pass from there."""

    tokens: Tokens
    state: ForwardState
    done: int = 0
    grids: list[Tensor] = field(default_factory=list)
    frozen: FrozenBlock | None = None
    latest: tuple[int, str] | None = None
    last: Tokens | None = None
    reads: list[Tokens] = field(default_factory=list)
    recovery: RecoveryBuffer | None = None


class ProbeEncoder(nn.Module):
    """Takes the place of a dense model's encoder; the rest of the model does not notice.

    A head may call its encoder several times for one prediction (sliding windows): calls are told apart by their
    number since `rewind`, which must be the same images in the same order for every probe of a batch.

    Args:
        encoder: encoder of a no-pruning model.
        keep_rate: share of the patches that the probed block keeps.
        criteria: all criteria that will be asked for.
        seed: of the random criterion.

    Raises:
        UserError: the encoder prunes by itself, or the keep rate is outside (0, 1].
    """

    def __init__(self, encoder: SparseEncoder, keep_rate: float, criteria: Sequence[Criterion], seed: int = 0) -> None:
        super().__init__()
        if encoder.reducer.keep_rate != 1.0:
            raise UserError(
                f"probe: the model's encoder prunes by itself (method '{encoder.reducer.name}'); probe a no-pruning one"
            )
        keep_count(1, keep_rate)
        self.encoder = encoder
        self.vit, self.reducer = encoder.vit, encoder.reducer
        self.read_blocks, self.recovery = encoder.read_blocks, encoder.recovery
        self.keep_rate = keep_rate
        self.seed = seed
        self.needs_attention = any(criterion.needs_attention for criterion in criteria)
        self.probe: Probe | None = None
        self._passes: list[_Pass] = []
        self._call = 0

    def new_batch(self) -> None:
        """Forgets the images seen so far."""
        self._passes = []
        self.rewind(None)

    def rewind(self, probe: Probe | None) -> None:
        """The next calls are for the same images again, under another probe (None is no pruning).

        Raises:
            UserError: the model has no such block.
        """
        if probe is not None and not 1 <= probe.layer <= len(self.vit.blocks):
            raise UserError(f"probe: block {probe.layer} is not one of the model's {len(self.vit.blocks)}")
        self.probe, self._call = probe, 0

    def forward(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """As `SparseEncoder.forward`, for the probe that is set."""
        if self._call == len(self._passes):
            self._passes.append(_Pass(*self.encoder.begin(images, sample_ids)))
        known = self._passes[self._call]
        self._call += 1
        probe = self.probe
        self._advance(known, len(self.vit.blocks) if probe is None else probe.layer - 1)
        trace = Trace(known.state.grid, known.state.sample_ids) if return_trace else None
        if probe is None:
            return self._output(known, known.tokens, known.grids, trace, None)
        return self._probed(known, probe, trace)

    def pool(self, output: EncoderOutput) -> Tensor:
        """As `SparseEncoder.pool`."""
        return self.encoder.pool(output)

    def _advance(self, known: _Pass, blocks: int) -> None:
        """Runs the dense pass on, up to the end of block `blocks`."""
        if known.done > blocks:
            raise ValueError(f"probes must come in ascending order: block {known.done} has already been passed")
        if known.done < blocks:
            known.frozen = None
        for layer in range(known.done + 1, blocks + 1):
            known.tokens = self.reducer.run_block(layer, self.vit.blocks[layer - 1], known.tokens, known.state)
            if layer in self.read_blocks:
                known.grids.append(self.reducer.read(known.tokens, known.state))
        known.done = blocks

    def _probed(self, known: _Pass, probe: Probe, trace: Trace | None) -> EncoderOutput:
        """The pruned block and those behind it; a second endpoint of the same probe only reads anew."""
        state = known.state
        if known.frozen is None:
            block = self.vit.blocks[probe.layer - 1]
            known.frozen = FrozenBlock.of(probe.layer, block, known.tokens, state, self.seed, self.needs_attention)
            known.latest = None
        if known.latest != (probe.layer, probe.criterion.name):
            self._run_pruned(known, known.frozen, probe)
            known.latest = probe.layer, probe.criterion.name
        assert known.last is not None
        recovery = None if known.recovery is None else known.recovery.with_scale(probe.alpha)
        grids = [*known.grids, *(recovery.reconstruct(tokens) for tokens in known.reads if recovery is not None)]
        if trace is not None:
            trace.record(probe.layer, known.frozen.tokens, known.last)
        return self._output(known, known.last, grids, trace, recovery)

    def _output(
        self,
        known: _Pass,
        tokens: Tokens,
        grids: list[Tensor],
        trace: Trace | None,
        recovery: RecoveryBuffer | None,
    ) -> EncoderOutput:
        if trace is not None:
            trace.final_counts = tokens.layout.counts_tensor
        return EncoderOutput(tokens, grids, known.state.grid, trace, recovery, {}, tokens.layout.counts)

    def _run_pruned(self, known: _Pass, frozen: FrozenBlock, probe: Probe) -> None:
        grid, ids = known.state.grid, known.state.sample_ids
        known.recovery = RecoveryBuffer(RecoverySettings(scale=1.0), grid, ids) if self.read_blocks else None
        count = keep_count(known.state.patches, self.keep_rate)
        state = ForwardState(grid, count, ids, known.recovery)
        tokens, known.reads = frozen.pruned(probe.criterion, count, state), []
        for layer in range(probe.layer, len(self.vit.blocks) + 1):
            if layer > probe.layer:
                tokens = self.reducer.run_block(layer, self.vit.blocks[layer - 1], tokens, state)
            if layer in self.read_blocks:
                known.reads.append(tokens)
        known.last = tokens
