"""The one interface of all methods that shorten the sequence.

A reducer runs each block of the encoder, from whole pieces of it (`tap.encoder.blocks`), and may remove patches at any
point in between. The encoder itself is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.config.options import OPTIONS
from tap.core.budget import keep_count
from tap.encoder.blocks import run_block
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method

IGNORE = 255
"""Class of void pixels in training targets and in evaluation, and of patches without any other: no loss counts them."""


@dataclass(frozen=True)
class ReducerSettings:
    """What a method may know when it is built.

    Attributes:
        width: token dimension d.
        depth: blocks L.
        keep_rate: final keep rate rho in (0, 1].
        layers: pruning blocks, from 1, increasing.
        task: name of the task, which a register of its own belongs to.
        class_token: whether row 0 of every image is a class token.
        dense: whether a dense head reads grids (then TAP has a recovery readout in use).
        split: shares of the removal budget per pruning block, for methods with a fixed schedule.
        seed: seed of stateless draws.
        tau_start, tau_end, gumbel: straight-through training (Eq. 4).
        allocation_bias, recovery_bias, register_std: initial values of the controller.
        schedule: shares of the removal budget per pruning block that replace the learned allocation (ablations).
        selection: what ranks the patches instead of the evolving register (tab:ablation): the query of the `initial`
            one at every block, or incoming `attention`; None is the paper's register.
        estimator: what trains the selection instead of the constrained mask (tab:training-ablation): `independent`
            gates with a rate loss, or nothing (`hard`); None is the constrained mask.
        rate_weight: weight of the rate loss of independent gates.
        num_classes: classes of the task's head, for auxiliary heads; None where there is no head.
        background: whether a patch may be no object at all, one more class of an auxiliary head.
        patches: patches of an image of the model's own size, for methods that learn something for each; None elsewhere.
        options: settings of the method itself (`tap.config.options`); None is its public recipe.
    """

    width: int
    depth: int
    keep_rate: float = 0.5
    layers: tuple[int, ...] = (3, 6, 9)
    task: str = "cls"
    class_token: bool = True
    dense: bool = False
    split: tuple[float, ...] = (26.8, 33.4, 39.8)
    seed: int = 0
    tau_start: float = 1.0
    tau_end: float = 0.1
    gumbel: bool = True
    allocation_bias: float = -0.693147
    recovery_bias: float = 0.0
    register_std: float = 0.02
    schedule: tuple[float, ...] | None = None
    selection: str | None = None
    estimator: str | None = None
    rate_weight: float | None = None
    num_classes: int | None = None
    background: bool = False
    patches: int | None = None
    options: Any = None

    def __post_init__(self) -> None:
        if not 0.0 < self.keep_rate <= 1.0:
            raise UserError(f"keep_rate: {self.keep_rate} is outside (0, 1]; give the share of patches to keep")
        if list(self.layers) != sorted(set(self.layers)) or not self.layers or self.layers[0] < 1:
            raise UserError(f"layers: {self.layers} must be increasing block numbers, counted from 1")
        if self.schedule is not None and len(self.schedule) != len(self.layers):
            raise UserError(
                f"schedule: {len(self.schedule)} shares for {len(self.layers)} pruning blocks; give one for each"
            )
        if self.layers[-1] > self.depth:
            raise UserError(f"layers: block {self.layers[-1]} does not exist in a model with {self.depth} blocks")


@dataclass(frozen=True)
class TeacherOutput:
    """What the no-pruning model of the same seed says of a batch; without gradients.

    Attributes:
        logits: `(B, num_classes)`, float32.
        patches: normalised patch states after the last block `(B, N, d)`.
    """

    logits: Tensor
    patches: Tensor


@dataclass(frozen=True)
class TrainingPass:
    """What a method may learn from beside the task's own loss.

    Attributes:
        encoder: the encoder that made the pass.
        output: what it returned; `output.memory` holds what the method kept.
        logits: the task head's `(B, C)` for cls, `(B, C, h, w)` on the patch grid for seg; None for det.
        targets: classes `(B,)` or class shares `(B, C)` for cls; None for dense tasks.
        patch_targets: class of every patch `(B, N)`, `IGNORE` where it has none; given to methods that want them.
        teacher: the no-pruning model's answer, for methods that are taught.
    """

    encoder: SparseEncoder
    output: EncoderOutput
    logits: Tensor | None = None
    targets: Tensor | None = None
    patch_targets: Tensor | None = None
    teacher: TeacherOutput | None = None


@dataclass(frozen=True)
class PartRates:
    """Factors of the scheduled learning rate of each part of a model; a part with 0 does not change."""

    reducer: float = 1.0
    backbone: float = 1.0
    head: float = 1.0


class Reducer(nn.Module):
    """Base of all methods: by itself it removes nothing.

    Attributes:
        name: how params.yaml and the registry call the method: the name of its file.
        method: what its jobs act upon. A calibrated method has a buffer `threshold`, a number in `threshold_range`,
            that decides how many patches are left: the mean count never falls when the threshold rises. It is found on
            the calibration split (`tap.engine.calibration`) after the training.
        calibrated_first: whether it is also found before the training, with the weights that the training starts from.
        threshold_range: where it is looked for.
        wants_patch_targets: whether `losses` reads the class of every patch.
        training_only: beginnings of the names of parameters that inference does not read.
        progress: share of the training that is done.
        progress_is_told: whether `set_progress` was ever called.
    """

    name: ClassVar[str]
    method: ClassVar[Method]
    calibrated_first: ClassVar[bool] = False
    threshold_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    wants_patch_targets: ClassVar[bool] = False
    training_only: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__()
        self.settings = settings
        self.keep_rate = settings.keep_rate
        self.progress = 0.0
        self.progress_is_told = False

    @property
    def options(self) -> Any:
        """The method's own settings: a model of `tap.config.options`; None for a method without any."""
        if self.settings.options is not None or self.name not in OPTIONS:
            return self.settings.options
        return OPTIONS[self.name]()

    @staticmethod
    def prepare_backbone(vit: Any, options: Any) -> None:
        """What the method changes of the backbone when the model is built, in place; by default nothing.

        Args:
            vit: timm `VisionTransformer` with its initial weights.
            options: the method's own settings.
        """

    def extra_prefix(self, batch: int, patches: int) -> Tensor | None:
        """Tokens that join behind the class token `(B, r, d)`; None for no token."""
        return None

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs block `layer` (from 1) and removes what the method removes there."""
        return run_block(block, tokens)

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """The complete grid at a read point `(B, N_1, d)`; by default through the common recovery."""
        assert state.recovery is not None
        return state.recovery.reconstruct(tokens)

    def pool(self, vit: Any, output: EncoderOutput) -> Tensor | None:
        """What the classifier reads `(B, d)`, for methods with a readout of their own; None for the model's."""
        return None

    @property
    def task_weight(self) -> float:
        """Weight of the task's own loss in training."""
        return 1.0

    def dense_logits(self, logits: Tensor, output: EncoderOutput) -> Tensor:
        """The logits of a segmentation head on the patch grid `(B, C, h, w)`, where a method has others for some."""
        return logits

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """Weighted terms that are added to the task's loss in training, by the name that the log shows."""
        return {}

    def rates(self) -> PartRates:
        """Factors of the learning rates at the present `progress`."""
        return PartRates()

    def set_progress(self, progress: float) -> None:
        """Tells the share of the training that is done, in [0, 1]; before every step.

        Raises:
            UserError: `progress` is outside [0, 1].
        """
        if not 0.0 <= progress <= 1.0:
            raise UserError(f"progress: {progress} is outside [0, 1]; give the share of the training that is done")
        self.progress = progress
        self.progress_is_told = True

    def added_parameters(self, training: bool = False) -> int:
        """Parameters that the method adds to the model, at inference or in training, counted from the module."""
        return sum(
            parameter.numel()
            for name, parameter in self.named_parameters()
            if training or not name.startswith(self.training_only)
        )


class FixedSchedule(Reducer):
    """Base of methods that leave the same number of patches in every image after each pruning block."""

    def schedule(self, patches: int) -> list[int]:
        """Patches left after each pruning block, not increasing; the last is K.

        By default every block keeps the same share rho^(1/M), as the public EViT and DynamicViT do: 155, 123, 98 of 196
        patches at rho = 0.5.
        """
        stages = len(self.settings.layers)
        final = keep_count(patches, self.keep_rate)
        shares = (self.keep_rate ** (stage / stages) for stage in range(1, stages))
        return [max(int(patches * share), final) for share in shares] + [final]

    def count_after(self, layer: int, tokens: Tokens, state: ForwardState) -> int | None:
        """Patches to leave after block `layer`; None where nothing is to be removed."""
        if layer not in self.settings.layers:
            return None
        count = self.schedule(state.patches)[self.settings.layers.index(layer)]
        if count == tokens.layout.width:
            state.note(layer, tokens, tokens)
            return None
        return count


def remove(
    layer: int,
    tokens: Tokens,
    keep: Tensor,
    counts: Sequence[int],
    state: ForwardState,
    keys: Tensor | None = None,
    scale: Tensor | None = None,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tokens]:
    """Drops patches from the sequence and writes down what recovery and trace need.

    Args:
        layer: the block, from 1.
        tokens: candidates.
        keep: what stays of the padded grid `(B, N)`.
        counts: how many stay in each image, on the host.
        state: the forward pass.
        keys: projected keys of all rows `(T, H, d_h)`; needed when a dense head will read.
        scale: recovery scale of each image `(B,)`, for a learned scale.
        scores: selection scores `(B, N)`, for the score matching.

    Returns:
        The rows that stay and the shorter tokens.
    """
    if state.recovery is not None:
        assert keys is not None
        state.recovery.store(layer, tokens, keep, counts, keys, scale, scores)
    rows, survivors = tokens.survivors(keep, counts)
    state.note(layer, tokens, survivors)
    return rows, survivors
