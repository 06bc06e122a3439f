"""DToP: patches whose class is certain exit early with that prediction; a few of each class stay as its witnesses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.encoder.blocks import run_block
from tap.encoder.layout import true_positions
from tap.encoder.sparse_vit import EncoderOutput
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer, ReducerSettings, TrainingPass
from tap.reducers.copies import complete_grid, keep_copies
from tap.reducers.costs import BlockCounts, Cost
from tap.reducers.mask_decoder import MaskDecoder, mask_losses
from tap.reducers.registry import register

METHOD = Method(readout="own", calibrated=True)
ROW = Row(
    "DToP",
    tasks=("seg",),
    order=100,
    in_paper=True,
    origin=Origin(
        "zbwxp/Dynamic-Token-Pruning",
        "2baefff",
        "BSD-2-Clause",
        readout="positions that exit keep the logits of the head that let them go",
        adapted=(
            "the common head reads the rest, its log-probabilities beside those of exits",
            "mask losses on patches instead of pixels",
            "both phases within the common budget",
            "threshold calibrated to a mean of K",
        ),
    ),
)


EXITS, ANSWERS, CANVAS = "dtop.exits", "dtop.answers", "dtop.canvas"


@register(METHOD)
class DToP(Reducer):
    """Auxiliary heads after some blocks; a patch exits where its confidence is above the threshold.

    Its logits are then those of the head that let it go. Under the threshold's calibration the mean count is K.
    """

    wants_patch_targets = True

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        options = self.options
        self.layers = tuple(options.layers)
        if list(self.layers) != sorted(set(self.layers)) or self.layers[-1] >= settings.depth:
            raise UserError(
                f"options.dtop.layers: {self.layers} must be increasing and end before block {settings.depth}, the last"
            )
        channels = options.channels or settings.width // 2
        if channels % options.heads:
            raise UserError(f"options.dtop: {channels} channels are not a multiple of {options.heads} heads")
        self.heads = nn.ModuleList(
            MaskDecoder(
                settings.width,
                channels,
                settings.num_classes or 2,
                options.decoder_layers,
                options.heads,
                options.dropout,
            )
            for _ in self.layers
        )
        self.threshold: Tensor
        self.register_buffer("threshold", torch.tensor(options.threshold))

    @property
    def exiting(self) -> bool:
        """Whether patches exit now: in training only behind its first phase."""
        return not self.training or self.progress >= self.options.pruned_from

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs the block; after those with a head, certain patches exit."""
        tokens = run_block(block, tokens)
        if layer not in self.layers or state.keep_count == state.patches:
            return tokens
        head = self.heads[self.layers.index(layer)]
        presence, masks = head(tokens.grid(tokens.x), tokens.layout.valid)
        if self.training:
            self._remember(presence, masks, tokens, state)
        if not self.exiting:
            return tokens
        scores = class_scores(presence, masks)
        leave = exits(scores.exp(), self.threshold, self.options.kept_per_class, tokens.layout.valid)
        stay = ~leave if tokens.layout.valid is None else ~leave & tokens.layout.valid
        counts = stay.sum(dim=1).tolist()  # the one host read of this block
        if tuple(counts) == tokens.layout.counts:
            state.note(layer, tokens, tokens)
            return tokens
        keep_copies(tokens, state)
        answers = scores - scores.logsumexp(dim=1, keepdim=True)  # shares of 1, as the head's own logits are compared
        self._answer(leave, answers, sum(tokens.layout.counts) - sum(counts), tokens, state)
        _, left = tokens.survivors(stay, counts)
        state.note(layer, tokens, left)
        return left

    def _answer(self, leave: Tensor, answers: Tensor, count: int, tokens: Tokens, state: ForwardState) -> None:
        """Writes down the positions that exit and their logits."""
        origin = torch.arange(len(leave), device=leave.device)[:, None] * state.patches
        cells = true_positions(leave.reshape(-1), count)
        positions = (origin + tokens.index).reshape(-1).index_select(0, cells)
        values = answers.transpose(1, 2).flatten(0, 1).index_select(0, cells)
        state.memory.setdefault(EXITS, []).append((positions, values))

    def _remember(self, presence: Tensor, masks: Tensor, tokens: Tokens, state: ForwardState) -> None:
        """Keeps what a head says of all positions, those that have left included, for its loss."""
        batch, classes = presence.shape[:2]
        positions, rows = tokens.positions(state.patches), tokens.layout.real_cells(masks.transpose(1, 2))
        canvas = state.memory.get(CANVAS)
        if canvas is None:
            canvas = rows.new_zeros(batch * state.patches, classes)
        canvas = state.memory[CANVAS] = canvas.index_copy(0, positions, rows)
        state.memory.setdefault(ANSWERS, []).append((presence, canvas.view(batch, -1, classes).transpose(1, 2)))

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """Patches that have left as they were then; their logits do not come from here."""
        return complete_grid(tokens, state)

    def dense_logits(self, logits: Tensor, output: EncoderOutput) -> Tensor:
        """Log-probabilities, for positions that have left those of the head that let them go."""
        if EXITS not in output.memory:
            return logits
        batch, classes, height, width = logits.shape
        table = logits.float().log_softmax(dim=1).permute(0, 2, 3, 1).reshape(-1, classes)
        for positions, answers in output.memory[EXITS]:  # one entry for each head
            table = table.index_copy(0, positions, answers)
        return table.view(batch, height, width, classes).permute(0, 3, 1, 2).to(logits.dtype)

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The mask losses of every auxiliary head, on the grid of patches."""
        if given.patch_targets is None:
            return {}
        options, terms = self.options, {}
        for layer, (presence, masks) in zip(self.layers, given.output.memory.get(ANSWERS, ()), strict=False):
            found = mask_losses(presence, masks, given.patch_targets)
            weights = (options.presence_weight, options.mask_weight, options.dice_weight)
            for name, weight, value in zip(("presence", "mask", "dice"), weights, found, strict=True):
                terms[f"{name}_{layer}"] = weight * value
        return terms


def class_scores(presence: Tensor, masks: Tensor) -> Tensor:
    """Logarithm of the confidence: that a class is there, times that it is at a position `(B, C, N)`, float32.

    Args:
        presence: logits of (there, not there) for each class `(B, C, 2)`.
        masks: mask logits `(B, C, N)`.
    """
    return presence.float().log_softmax(dim=-1)[..., :1] + F.logsigmoid(masks.float())


def exits(confidence: Tensor, threshold: Tensor, kept_per_class: int, valid: Tensor | None = None) -> Tensor:
    """Which positions are certain enough to leave `(B, N)`.

    Args:
        confidence: of each class at each position `(B, C, N)`.
        threshold: a position with more is certain; a scalar on the device.
        kept_per_class: most certain positions of each class that stay; of equally certain ones the first.
        valid: positions that exist `(B, N)`; None for all.
    """
    best = confidence.amax(dim=1, keepdim=True)
    winner = (confidence == best).to(torch.uint8).argmax(dim=1)  # of equal classes the first
    best = best.squeeze(1)
    certain = best > threshold
    if valid is not None:
        certain = certain & valid
    group = torch.where(certain, winner, confidence.shape[1])
    # By class, within a class from the most certain on: two stable sorts.
    by_confidence = best.argsort(dim=1, descending=True, stable=True)
    order = by_confidence.gather(1, group.gather(1, by_confidence).argsort(dim=1, stable=True))
    sorted_group = group.gather(1, order)
    place = torch.arange(group.shape[1], device=group.device).expand_as(group)
    first = torch.ones_like(certain)
    first[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
    rank = place - torch.where(first, place, 0).cummax(dim=1).values
    return certain & (torch.empty_like(rank).scatter_(1, order, rank) >= kept_per_class)


def _own_operations(given: BlockCounts) -> float:
    """A decoder with a query for each class: what is linear in patches, in queries, and their attention."""
    head = given.reducer.heads[given.reducer.layers.index(given.layer)]
    classes, channels = head.queries.shape
    patches = given.images * given.width
    total = patches * head.input_proj.weight.numel() + given.images * classes * head.presence.weight.numel()
    for _ in head.layers:
        by_patch, by_query = 2 * channels**2, (4 + 2 + 8) * channels**2  # keys, values; own, across, MLP
        total += patches * by_patch + given.images * classes * by_query
        total += 2 * given.images * classes * (classes + given.width) * channels
    return 2.0 * total


def _works(reducer: DToP) -> tuple[int, ...]:
    """Auxiliary heads predict wherever patches may leave, whether any do or not."""
    return () if reducer.keep_rate == 1.0 else reducer.layers


COST = Cost("end", own=_own_operations, works=_works)
