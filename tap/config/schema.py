"""Every setting of the project as pydantic models: the one place that knows names, types, ranges and defaults.

A *scale file* (`workflow/scales/<scale>.yaml`) fills `ScaleConfig`. `params.yaml` (`Params`) picks the scale and
overrides single values of it. The JSON schemas and the documented default file are generated from here
(`tap config generate`).

A field that may be null has null as its default, so that adding one changes no job that leaves it alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from tap.config.datasets import DATASETS
from tap.config.detector import DetectorConfig
from tap.config.methods import CRITERIA, DENSE, METHODS, methods_of
from tap.config.options import MethodOptions
from tap.config.strict import Strict
from tap.config.tuning import TuneConfig
from tap.config.variants import VARIANTS
from tap.task_facts import TASKS

Scale = Literal["smoke", "desk", "paper"]
if TYPE_CHECKING:
    TaskName = str
    DatasetName = str
    MethodName = str
else:  # what a type checker cannot know: the names come from the tasks' entries and the methods' files
    TaskName = Literal[tuple(TASKS)]
    DatasetName = Literal[tuple(DATASETS)]
    MethodName = Annotated[str, Field(json_schema_extra={"enum": list(METHODS)})]


def _two_decimals(rate: float) -> float:
    if round(rate, 2) != rate:
        raise ValueError("must have at most two decimals, since run folders are named by them")
    return rate


def _check_blocks(name: str, blocks: Sequence[int], depth: int | None = None) -> None:
    if list(blocks) != sorted(set(blocks)) or any(block < 1 for block in blocks):
        raise ValueError(f"{name} must be increasing block numbers, counted from 1")
    if depth is not None and any(block > depth for block in blocks):
        raise ValueError(f"{name} names block {blocks[-1]} of a model with {depth} blocks")


def _rising_factors(factors: tuple[float, float]) -> tuple[float, float]:
    if not 0 < factors[0] <= factors[1]:
        raise ValueError(f"must be two numbers above 0, the smaller one first, got {list(factors)}")
    return factors


def _check_distinct(name: str, values: Sequence[object]) -> None:
    if len(set(values)) != len(values):
        raise ValueError(f"{name} names a value twice: {', '.join(map(str, values))}")


KeepRate = Annotated[
    float,
    Field(gt=0.0, le=1.0, description="share of input patches that reach the last block"),
    AfterValidator(_two_decimals),
]

Factors = Annotated[tuple[float, float], AfterValidator(_rising_factors)]
"""A range that a factor is drawn from."""

Alpha = Annotated[float, Field(ge=0.0, le=1.0)]
"""Share of the stored offset that recovery adds to the stand-in (Eq. 3)."""


class DataConfig(Strict):
    """Where the images of one task come from and how they are cut into splits."""

    name: DatasetName = Field(description="dataset")
    root: str = Field(description="folder of the prepared (desk, smoke) or the user's own (paper) data")
    num_classes: int = Field(
        ge=1, description="outputs of the task's head: its classes (background included for seg), or 1 for a number"
    )
    mean: tuple[float, ...] = Field(description="per-channel mean of pixels scaled to [0, 1]")
    std: tuple[float, ...] = Field(description="per-channel standard deviation of pixels scaled to [0, 1]")
    calibration: int = Field(ge=0, description="training images set aside for calibration (endpoints, thresholds)")
    limit_calibration: int | None = Field(
        None, ge=1, description="use only this many of them to find the thresholds of methods whose count varies"
    )
    limit_train: int | None = Field(None, ge=1, description="use only this many training images (smoke)")
    limit_val: int | None = Field(None, ge=1, description="use only this many evaluation images (smoke)")
    subset: tuple[int, int] | None = Field(
        None,
        description="training and evaluation images that the folder holds, where it is a stated part of the data set "
        "(a trial); null expects all of them",
    )
    workers: int = Field(0, ge=0, description="data-loading processes of a job; 0 loads in the job itself")

    @model_validator(mode="after")
    def _one_value_per_channel(self) -> DataConfig:
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean has {len(self.mean)} channels and std has {len(self.std)}; give one value each")
        if self.subset is not None and min(self.subset) < 1:
            raise ValueError(f"subset must be two numbers of images above 0, got {list(self.subset)}")
        if min(self.std, default=1.0) <= 0:
            raise ValueError(f"std must be above 0 in every channel, got {list(self.std)}")
        return self


class ModelConfig(Strict):
    """The backbone: a name that timm knows, or the sizes of a plain ViT (Sec. Implementation)."""

    timm_name: str | None = Field(
        None, description="timm model, such as vit_base_patch16_224.mae; null uses the sizes below"
    )
    image_size: int = Field(ge=8, description="input resolution in pixels (square)")
    patch_size: int = Field(ge=1, description="side of a patch in pixels")
    channels: int = Field(3, ge=1, description="image channels")
    width: int = Field(768, ge=8, description="token dimension d")
    depth: int = Field(12, ge=1, description="number of blocks L")
    heads: int = Field(12, ge=1, description="attention heads H")
    mlp_ratio: float = Field(4.0, gt=0, description="hidden width of the MLP over d")
    class_token: bool = Field(True, description="whether the pipeline has a class token (cls and seg do, det does not)")
    drop_path: float = Field(0.0, ge=0, lt=1, description="stochastic depth rate of the last block")
    head_channels: int = Field(256, ge=1, description="channels of the dense head")
    read_blocks: tuple[int, ...] = Field((), description="blocks (from 1) after which a dense head reads the grid")
    window: int | None = Field(
        None, ge=1, description="patches per side of an attention window (ViTDet); null is a plain ViT"
    )
    global_blocks: tuple[int, ...] | None = Field(
        None, description="blocks (from 1) that attend globally where there are windows; methods prune there"
    )
    rel_pos: bool | None = Field(None, description="decomposed relative position in every block; null is off")
    pad_windows: bool | None = Field(
        None, description="places beyond the grid's edge act as keys, as in public ViTDet; null masks them"
    )
    position_grid: int | None = Field(
        None,
        ge=1,
        description="patches per side for which absolute positions are stored; null takes those of image_size",
    )
    detector: DetectorConfig | None = Field(None, description="what follows the encoder in detection; null elsewhere")

    @model_validator(mode="after")
    def _sizes_fit(self) -> ModelConfig:
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        _check_blocks("read_blocks", self.read_blocks, self.depth)
        _check_blocks("global_blocks", self.global_blocks or (), self.depth)
        if self.window is None and (self.global_blocks is not None or self.pad_windows):
            raise ValueError("global_blocks and pad_windows are for a model with windows; give `window` too")
        if self.on_grid and self.class_token:
            raise ValueError("class_token must be false with windows or relative position: it has no place on the grid")
        if self.position_grid is not None and not self.on_grid:
            raise ValueError("position_grid is for a ViTDet trunk; give `window` or `rel_pos` too")
        return self

    @property
    def on_grid(self) -> bool:
        """Whether this is a ViTDet trunk: windows, relative position, or both."""
        return self.window is not None or bool(self.rel_pos)

    @property
    def plain(self) -> ModelConfig:
        """The plain ViT of the same sizes, which is what MAE pre-trains."""
        grid = ("window", "global_blocks", "rel_pos", "pad_windows", "position_grid")
        return self.model_copy(update=dict.fromkeys(grid))


class OptimizerConfig(Strict):
    """AdamW with layer-wise learning-rate decay."""

    lr: float = Field(gt=0, description="base learning rate")
    lr_reference_batch: int | None = Field(
        None, ge=1, description="scale lr by batch_size / this; null takes lr as it is"
    )
    weight_decay: float = Field(0.05, ge=0, description="decoupled weight decay (not for biases, norms, tokens)")
    beta1: float = Field(0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of the mean squared gradient")
    eps: float = Field(1e-8, gt=0, description="added to the denominator of the update")
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor per block from the head down; 1 switches it off")
    controller_lr_scale: float = Field(1.0, gt=0, description="learning-rate factor of register and readouts")
    clip_grad: float | None = Field(None, gt=0, description="largest global gradient norm; null switches clipping off")


class ScheduleConfig(Strict):
    """Learning rate over steps; warm-up is linear from zero."""

    kind: Literal["cosine", "poly", "step"] = Field("cosine", description="shape after the warm-up")
    warmup: float = Field(0.0, ge=0, description="length of the warm-up in the unit of the training length")
    final_lr: float = Field(0.0, ge=0, description="learning rate at the end, as a share of the base learning rate")
    power: float = Field(1.0, gt=0, description="exponent of the polynomial schedule")
    milestones: tuple[float, ...] = Field(
        (), description="where a step schedule drops, in the unit of the training length"
    )
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each drop")

    @model_validator(mode="after")
    def _milestones_rise(self) -> ScheduleConfig:
        if list(self.milestones) != sorted(set(self.milestones)) or min(self.milestones, default=1.0) <= 0:
            raise ValueError(f"milestones must be increasing and above 0, got {list(self.milestones)}")
        return self


class AugmentConfig(Strict):
    """Training augmentation; what a task does not use stays at its neutral default."""

    crop_scale: Factors = Field((1.0, 1.0), description="area range of the random resized crop (cls)")
    hflip: float = Field(0.0, ge=0, le=1, description="probability of a horizontal flip")
    rand_augment: str | None = Field(None, description="timm RandAugment string, such as rand-m9-mstd0.5-inc1")
    mixup: float = Field(0.0, ge=0, description="Mixup alpha")
    cutmix: float = Field(0.0, ge=0, description="CutMix alpha")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over all classes (cls)")
    random_erasing: float = Field(0.0, ge=0, le=1, description="probability of random erasing")
    scale_range: Factors = Field((1.0, 1.0), description="resize range before the crop (seg, det)")
    photometric: bool = Field(False, description="brightness, contrast, saturation and hue jitter (seg)")


MicroBatch = Annotated[
    Annotated[int, Field(ge=1)] | Literal["auto"] | None,
    Field(
        description="images that a process passes at once, whose gradients add up to those of its batch; auto halves "
        "them when a GPU's memory runs out; null (default) passes all of its batch"
    ),
]
Checkpointing = Annotated[
    bool | None,
    Field(description="compute activations again in the backward pass instead of keeping them; null is off"),
]


class Training(Strict):
    """What every training has: how fast, in which precision, how often it says something."""

    optimizer: OptimizerConfig
    schedule: ScheduleConfig = Field(
        ScheduleConfig(), description="warm-up and milestones in the unit of the training's length"
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="bf16 uses autocast")
    threads: int = Field(1, ge=1, description="CPU threads of the training; another number gives other last digits")
    checkpoint_seconds: float = Field(60.0, gt=0, description="time between resume points")
    log_steps: int = Field(10, ge=1, description="steps between log lines")
    micro_batch: MicroBatch = None
    checkpointing: Checkpointing = None

    def check_schedule(self, length: float, unit: str) -> None:
        """Refuses a schedule that is not inside a training of some length.

        Raises:
            ValueError: names what is outside.
        """
        schedule = self.schedule
        if schedule.warmup >= length:
            raise ValueError(f"schedule.warmup {schedule.warmup:g} fills the whole training of {length:g} {unit}")
        drops, end = list(schedule.milestones), length
        if unit == "steps":  # as they will be rounded
            drops, end = [math.floor(drop + 0.5) for drop in drops], math.floor(end + 0.5)
        if schedule.kind == "step" and not (drops and drops == sorted(set(drops)) and drops[-1] < end):
            raise ValueError(
                f"schedule.milestones {list(schedule.milestones)} must name {unit} inside a training of {length:g}"
            )


class TrainConfig(Training):
    """One training: how long, how fast, on what."""

    length: float = Field(gt=0, description="length of the training, in `unit`")
    unit: Literal["epochs", "steps"] = Field("epochs", description="unit of length, warm-up and milestones")
    batch_size: int = Field(ge=1, description="images per optimizer step, over all processes")
    augment: AugmentConfig = AugmentConfig()
    ema: float | None = Field(None, gt=0, lt=1, description="decay of the weight average; null (default) is off")

    @model_validator(mode="after")
    def _schedule_is_inside(self) -> TrainConfig:
        self.check_schedule(self.length, self.unit)
        return self


class MixConfig(Strict):
    """How the images of another task take part in a pre-training."""

    batch_size: int = Field(ge=1, description="images per step that is this task's, over all processes")
    augment: AugmentConfig = AugmentConfig()


class JointTrainConfig(Training):
    """A training of several tasks in turn; batches and augmentation are those of each task's `method`."""

    steps: int = Field(ge=1, description="optimizer steps over all tasks, one of which is drawn uniformly at each")

    @model_validator(mode="after")
    def _schedule_is_inside(self) -> JointTrainConfig:
        self.check_schedule(self.steps, "steps")
        return self

    def of(self, own: TrainConfig) -> TrainConfig:
        """As one of the tasks sees it, whose own training gives batches and augmentation."""
        shared = {name: getattr(self, name) for name in Training.model_fields}
        return TrainConfig(length=self.steps, unit="steps", batch_size=own.batch_size, augment=own.augment, **shared)


class JointConfig(Strict):
    """TAP-F: all tasks that list it are trained together, on one frozen base (Sec. TAP-J and TAP-F ownership)."""

    start: JointTrainConfig | None = Field(
        None,
        description="a training at keep rate 1, one per seed and ownership of the updates, from which all variants go "
        "on; null trains each from the pre-trained base",
    )
    train: JointTrainConfig = Field(description="training of every keep rate and variant: one budget for all")
    processes: int | None = Field(None, ge=1, description="GPUs of one joint training; null takes the scale's")
    seeds: tuple[int, ...] | None = Field(
        None, description="joint seeds, of which a task uses those that its `seeds` name, too; null takes all of these"
    )

    @model_validator(mode="after")
    def _distinct(self) -> JointConfig:
        _check_distinct("seeds", self.seeds or ())
        return self


class PretrainConfig(Strict):
    """MAE pre-training of the desk backbone, or a file with public weights at paper scale."""

    weights: str | None = Field(
        None, description="MAE checkpoint (safetensors, or a tensor-only .pth); null pre-trains here"
    )
    share: TaskName | None = Field(None, description="task whose pre-trained backbone is used; null has its own")
    trained_on: TaskName | None = Field(
        None,
        description="task whose start without pruning, of the same seed, gives the backbone that this task's own start "
        "begins with; null is the pre-training's. A frozen base that tasks share (TAP-F) is the pre-training's anyway",
    )
    sha256: str | None = Field(
        None,
        pattern="^[0-9a-fA-F]{64}$",
        description="expected sha256 of that file; null accepts any pre-training's and records it",
    )
    size: int | None = Field(None, ge=1, description="expected size of that file in bytes; null accepts any")
    mask_ratio: float = Field(0.75, gt=0, lt=1, description="share of patches hidden from the encoder")
    decoder_width: int = Field(512, ge=8, description="token dimension of the decoder")
    decoder_depth: int = Field(8, ge=1, description="blocks of the decoder")
    decoder_heads: int = Field(16, ge=1, description="attention heads of the decoder")
    train: TrainConfig | None = Field(
        None, description="schedule of the pre-training, where neither `weights` nor `share` is given"
    )
    mix: dict[TaskName, MixConfig] | None = Field(
        None,
        description="other tasks whose images it sees as well: at each step one of all these tasks is drawn, "
        "uniformly; null sees the images of its own task alone",
    )

    @model_validator(mode="after")
    def _one_source(self) -> PretrainConfig:
        if self.weights is None and self.train is None and self.share is None:
            raise ValueError("give `weights` (a file), `train` (a schedule) or `share` (another task's backbone)")
        if self.share is not None and (self.weights is not None or self.train is not None):
            raise ValueError("`share` takes another task's backbone, so neither `weights` nor `train` can be given")
        if self.trained_on is not None and self.weights is not None:
            raise ValueError("`trained_on` begins with a backbone that is trained here, so `weights` cannot be given")
        if self.mix is not None and (self.train is None or self.train.unit != "steps" or self.train.ema is not None):
            raise ValueError("`mix` needs `train`, in steps (data sets have no common epoch) and without `ema`")
        return self


class ControllerConfig(Strict):
    """The task register and its training (Alg. 1, Eqs. 4-6, Sec. Cardinality-constrained straight-through training)."""

    layers: tuple[int, ...] = Field((3, 6, 9), description="pruning blocks, counted from 1")
    tau_start: float = Field(1.0, gt=0, description="temperature at the start of training")
    tau_end: float = Field(0.1, gt=0, description="temperature at its end (cosine in between)")
    gumbel: bool = Field(True, description="perturb the training scores")
    allocation_bias: float = Field(
        -0.693147, description="initial b: sigmoid(b) = 1/3 of the budget at the first layer"
    )
    recovery_bias: float = Field(0.0, description="initial v: sigmoid(v) = 0.5 of the stored offset")
    register_std: float = Field(0.02, gt=0, description="standard deviation of the initial register")
    register_start: Literal["normal", "class_token"] = Field(
        "normal",
        description="where the register starts: a normal draw of register_std, or the pre-trained class token with its "
        "position, which the pre-training's file has for detection too",
    )
    schedule: tuple[float, ...] | None = Field(
        None, description="fixed shares of the removal budget per pruning block; null (default) learns the allocation"
    )

    selection: Literal["initial", "attention"] | None = Field(
        None,
        description="what ranks the patches: the initial register at every block, or incoming attention "
        "(tab:ablation); null (default) is the register's evolving state",
    )
    estimator: Literal["independent", "hard"] | None = Field(
        None,
        description="what trains the selection: independent gates with a rate loss, or nothing "
        "(tab:training-ablation); null (default) is the constrained straight-through mask",
    )
    rate_weight: float | None = Field(
        None, gt=0, description="weight of the rate loss of independent gates; null (default) is 2"
    )

    @model_validator(mode="after")
    def _ordered(self) -> ControllerConfig:
        if not self.layers:
            raise ValueError("layers must name at least one block")
        _check_blocks("layers", self.layers)
        return self


class RecoveryConfig(Strict):
    """How a dense head gets removed positions back (Eqs. 2, 3); the defaults are the paper's for seg."""

    scale: Literal["learned"] | Alpha = Field(
        "learned", description="alpha of TAP: learned from the register, or one value for all"
    )
    endpoint: Literal["auto"] | Alpha = Field(
        1.0,
        description="alpha of methods without a readout: 1 full offset, 0 stand-in only; auto takes the one that is "
        "better on the calibration split (`tap endpoint`)",
    )
    matching: Literal["key", "token", "spatial", "score", "random", "final"] = Field(
        "key", description="what makes a patch the stand-in of a removed one (tab:matching-ablation)"
    )
    zero_fill: bool = Field(False, description="give back zeros instead (recovery off)")


class EvalConfig(Strict):
    """Evaluation of a checkpoint."""

    batch_size: int = Field(ge=1, description="images per pass")
    inference: Literal["whole", "slide"] = Field(
        "whole", description="seg: one pass over the image, or sliding windows of model.image_size"
    )
    stride: int | None = Field(
        None, ge=1, description="seg: pixels from one window to the next; null takes two thirds of a window"
    )
    threads: int = Field(2, ge=1, description="CPU threads; another number gives other last digits")
    small_side: float = Field(
        32.0, gt=0, description="det: an object is small, for its coverage, below the square of this many pixels"
    )
    register_images: int | None = Field(
        None, ge=1, description="validation images on which a register is held against others; null takes all"
    )


class ProfileConfig(Strict):
    """How the scale's own models are timed beside the dense encoder; read by `tap profile` alone (Sec. Profiling)."""

    batch_size: int = Field(ge=1, description="images per pass")
    warmup: int = Field(100, ge=1, description="warm-up iterations")
    iterations: int = Field(500, ge=1, description="measured iterations of each side, alternating")
    dtype: Literal["fp32", "bf16"] = Field("bf16", description="precision of the measured passes")
    threads: int = Field(2, ge=1, description="CPU threads (ignored on a GPU)")


class ProbeConfig(Strict):
    """Controlled probes: one block of a no-pruning checkpoint pruned, nothing trained (Sec. Controlled-Probe Study)."""

    keep_rate: KeepRate = Field(0.5, description="share of the patches that the probed block keeps")
    criteria: tuple[str, ...] | None = Field(None, description="criteria of the layer probe; null takes all eleven")
    layers: tuple[int, ...] | None = Field(
        None, description="blocks to probe, counted from 1; null takes every one that attends globally"
    )
    images: int | None = Field(None, ge=1, description="use only this many validation images; null takes all")

    @model_validator(mode="after")
    def _known(self) -> ProbeConfig:
        unknown = [name for name in self.criteria or () if name not in CRITERIA]
        if unknown:
            raise ValueError(f"criteria: '{unknown[0]}' is not known; choose from {', '.join(CRITERIA)}")
        _check_distinct("criteria", self.criteria or ())
        _check_blocks("layers", self.layers or ())
        for name, values in (("criteria", self.criteria), ("layers", self.layers)):
            if values is not None and not values:
                raise ValueError(f"{name} is empty; null takes all")
        return self


class ControlConfig(Strict):
    """Controls of trained TAP checkpoints: other allocations, matching rules and recovery scales, nothing trained."""

    images: int | None = Field(None, ge=1, description="use only this many validation images; null takes all")
    calibration_images: int | None = Field(
        None, ge=1, description="images behind the task's mean allocation and recovery; null takes all"
    )
    oracle_images: int | None = Field(
        None, ge=1, description="calibration images on which the oracle tries every split; null takes all"
    )
    oracle_step: Literal[5, 10, 20, 25, 50] = Field(5, description="percent between the splits that the oracle tries")
    choice_images: int | None = Field(
        None, ge=1, description="validation images on which each group of patches is left out in turn; null takes all"
    )
    choice_side: int = Field(
        4, ge=2, description="groups of patches in each direction of the grid that are left out in turn"
    )


class Length(Strict):
    """Another length of a task's trainings, with the places of its schedule that depend on it."""

    length: float = Field(gt=0, description="length of the training, in the unit of the task's trainings")
    milestones: tuple[float, ...] | None = Field(
        None, description="where a step schedule drops; null keeps those that there are"
    )


class ChosenConfig(Strict):
    """Values of a method's own in the place of those that all methods share; the budget is the same for all."""

    controller: dict[str, Any] = Field({}, description="settings of the register, as `controller` names them")
    optimizer: dict[str, Any] = Field({}, description="settings of the optimizer, as `method.optimizer` names them")

    @property
    def changes(self) -> dict[str, Any]:
        """The values by the dotted names of `JobSpec`."""
        parts = {"controller": self.controller, "train.optimizer": self.optimizer}
        return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


class TaskConfig(Strict):
    """One pipeline at one scale."""

    data: DataConfig
    model: ModelConfig
    processes: int | None = Field(None, ge=1, description="GPUs of one training of this task; null takes the scale's")
    pretrain: PretrainConfig
    start_from: Literal["pretrained", "dense"] = Field(
        description="where every method starts: the pre-trained weights, or a first training without pruning, one per "
        "seed, from which all, no pruning too, go on with the same budget"
    )
    seeds: tuple[int, ...] = Field(min_length=1, description="seeds of every run of the task")
    methods: tuple[MethodName, ...] = Field(min_length=1, description="rows of the task's main table, by reducer name")
    lengths: dict[str, Length] | None = Field(None, description="other lengths of its trainings, by name")
    trained_for: str | None = Field(
        None, description="the name of one of `lengths`, which `dense` and `method` then have; null has their own"
    )
    dense: TrainConfig = Field(description="training without pruning: of that row, or of where all start")
    method: TrainConfig = Field(description="training of every method: one budget for all")
    chosen: dict[MethodName, ChosenConfig] = Field(
        {},
        description="what methods have of their own, chosen on the calibration split, by method; of one that `methods` "
        "does not list it stays without effect",
    )
    tune: TuneConfig = TuneConfig()
    options: MethodOptions = MethodOptions()
    recovery: RecoveryConfig = RecoveryConfig()
    eval: EvalConfig
    profile: ProfileConfig
    probes: ProbeConfig = ProbeConfig()
    controls: ControlConfig = ControlConfig()

    @model_validator(mode="before")
    @classmethod
    def _of_chosen_length(cls, tree: Any) -> Any:
        if not isinstance(tree, dict) or tree.get("trained_for") is None:
            return tree
        known = tree.get("lengths") or {}
        if tree["trained_for"] not in known:
            raise ValueError(
                f"trained_for: '{tree['trained_for']}' is not one of lengths: {', '.join(known) or 'none'}"
            )
        chosen = Length.model_validate(known[tree["trained_for"]])
        tree = {**tree}
        for part in ("dense", "method"):
            tree[part] = {**tree[part], "length": chosen.length}
            if chosen.milestones is not None:
                tree[part]["schedule"] = {**tree[part].get("schedule", {}), "milestones": chosen.milestones}
        return tree

    @model_validator(mode="after")
    def _consistent(self) -> TaskConfig:
        if len(self.data.mean) != self.model.channels:
            raise ValueError(f"data.mean has {len(self.data.mean)} values for model.channels {self.model.channels}")
        if DENSE not in self.methods:
            raise ValueError(f"methods must include '{DENSE}' (no pruning), which every row is compared with")
        if self.eval.stride is not None and self.eval.stride > self.model.image_size:
            raise ValueError(
                f"eval.stride {self.eval.stride} leaves gaps between windows of {self.model.image_size} pixels; "
                "make it smaller"
            )
        _check_blocks("probes.layers", self.probes.layers or (), self.model.depth)
        _check_distinct("methods", self.methods)
        _check_chosen(self)
        _check_options(self)
        _check_tune(self)
        _check_distinct("seeds", self.seeds)
        return self


def _check_chosen(task: TaskConfig) -> None:
    for method, values in task.chosen.items():
        if method in METHODS and METHODS[method].method.frozen and values.optimizer:
            raise ValueError(
                f"chosen.{method}.optimizer: its training is that of several tasks; set joint.train.optimizer instead"
            )


def _check_options(task: TaskConfig) -> None:
    for method in task.methods:
        if (options := task.options.of(method)) is None:
            continue
        _check_blocks(f"options.{method}: layers", getattr(options, "layers", None) or (), task.model.depth)
        if misfit := options.misfit(task.model.width):
            raise ValueError(f"options.{method}: {misfit}")


def _check_tune(task: TaskConfig) -> None:
    for method in task.tune.methods or ():
        if method in METHODS and METHODS[method].method.frozen:
            raise ValueError(
                f"tune.methods: '{method}' is trained on several tasks together, which no search of one task judges; "
                "leave it out"
            )
    if task.tune.methods is not None and DENSE not in task.tune.methods:
        raise ValueError(
            f"tune.methods must include '{DENSE}' (no pruning), which others learn from and are compared with"
        )
    for name in ("seeds", "budget_seeds"):
        given = getattr(task.tune, name)
        if given != "all" and (missing := set(given or ()) - set(task.seeds)):
            raise ValueError(f"tune.{name}: {min(missing)} is not one of the task's seeds: {list(task.seeds)}")


def _check_shared_backbone(name: str, task: TaskConfig, tasks: Mapping[TaskName, TaskConfig]) -> None:
    source = task.pretrain.share
    if source is not None:
        if source == name or source not in tasks or tasks[source].pretrain.train is None:
            raise ValueError(
                f"tasks.{name}.pretrain.share: '{source}' is no other task that pre-trains a backbone here"
            )
        _check_same_backbone(f"tasks.{name}.pretrain.share", source, task.model, tasks[source].model)
    before = task.pretrain.trained_on
    if before is not None:
        where = f"tasks.{name}.pretrain.trained_on"
        if before == name or before not in tasks or {task.start_from, tasks[before].start_from} != {"dense"}:
            raise ValueError(f"{where}: '{before}' is no other task with a start of its own (`start_from: dense`)")
        if tasks[before].pretrain.trained_on is not None:
            raise ValueError(f"{where}: '{before}' begins with another task's backbone itself; name one that does not")
        if missing := set(task.seeds) - set(tasks[before].seeds):
            raise ValueError(f"{where}: '{before}' is not trained with seed {min(missing)}; give both the same seeds")
        _check_same_backbone(where, before, task.model, tasks[before].model)
    for other in task.pretrain.mix or ():
        if other == name or other not in tasks:
            raise ValueError(f"tasks.{name}.pretrain.mix: '{other}' is no other task of this scale")
        _check_same_backbone(f"tasks.{name}.pretrain.mix", other, task.model, tasks[other].model)


def _check_same_backbone(where: str, other: str, mine: ModelConfig, its: ModelConfig) -> None:
    """What blocks and stem are made of; the number of patches may differ, since positions are resized."""
    for size in ("timm_name", "patch_size", "channels", "width", "depth", "heads", "mlp_ratio"):
        if (own := getattr(mine, size)) != (found := getattr(its, size)):
            raise ValueError(f"{where}: '{other}' has model.{size} {found}, not {own}, so no backbone fits both")


def _check_joint(joint: JointConfig | None, tasks: Mapping[TaskName, TaskConfig]) -> None:
    """What a method that all tasks share a frozen base for asks of the settings."""
    for method in (name for name, facts in METHODS.items() if facts.method.frozen):
        having = {name: task for name, task in tasks.items() if method in task.methods}
        if not having:
            continue
        name, first = next(iter(having.items()))
        if len(having) == 1:
            raise ValueError(
                f"tasks.{name}.methods: '{method}' is trained for several tasks together; list it in another task as "
                "well, or leave it out here"
            )
        if joint is None:
            raise ValueError(f"joint: is missing, but tasks.{name}.methods lists '{method}', which is trained by it")
        for other, task in having.items():
            if joint.seeds is not None and not set(task.seeds) & set(joint.seeds):
                raise ValueError(f"joint.seeds: has none of tasks.{other}.seeds; name one of them, or null for all")
            if task.options.of(method) != first.options.of(method):
                raise ValueError(f"tasks.{other}.options.{method}: is not that of '{name}', with which it is trained")
            _check_same_backbone(f"tasks.{name}.methods: {method}", other, first.model, task.model)
            if _backbone_of(other, task) != _backbone_of(name, first):
                raise ValueError(
                    f"tasks.{other}.pretrain: '{method}' shares one base, but this is not the backbone of '{name}'"
                )


def _backbone_of(name: TaskName, task: TaskConfig) -> str:
    """The file, or the task whose pre-training makes it."""
    return task.pretrain.weights or f"pre-trained for {task.pretrain.share or name}"


class ScaleConfig(Strict):
    """Everything that one scale fixes."""

    scale: Scale = Field(description="name of the scale, the file's own")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU where there is one")
    processes: int = Field(
        1, ge=1, description="processes (GPUs) of one training, where its task says no other; torchrun starts several"
    )
    main_rate: KeepRate = Field(0.5, description="keep rate of every method in the main tables")
    keep_rates: tuple[KeepRate, ...] = Field((0.3, 0.5, 0.7), description="keep rates of TAP-J and TAP-F")
    variants: tuple[str, ...] = Field((), description="ablations to make beside the main runs (tap/config/variants.py)")
    controller: ControllerConfig = ControllerConfig()
    static_split: tuple[float, ...] = Field(
        (26.8, 33.4, 39.8), description="shared schedule of the static rule: percent of the budget per pruning block"
    )
    tasks: dict[TaskName, TaskConfig] = Field(min_length=1, description="the pipelines of this scale")
    joint: JointConfig | None = Field(None, description="TAP-F's trainings; null where no task lists it")
    profile_device: str | None = Field(
        None,
        description="machine whose profiles tables show, a folder of results/profiles; null takes the first GPU there, "
        "else the first CPU",
    )
    _behind: dict[str, TaskConfig] = PrivateAttr(default_factory=dict)

    @property
    def all_tasks(self) -> dict[str, TaskConfig]:
        """The tasks to make, and those that `params.yaml` left out: what is made may need their data, too."""
        return {**self.tasks, **self._behind}

    def processes_of(self, task: str | None) -> int:
        """Processes of one training of a task; None asks for a joint one."""
        own = self.all_tasks[task].processes if task is not None else self.joint and self.joint.processes
        return own or self.processes

    def only(self, tasks: Sequence[str]) -> ScaleConfig:
        """The settings with some of the tasks to make."""
        chosen = self.model_copy(update={"tasks": {task: self.tasks[task] for task in tasks}})  # type: ignore[index]
        chosen._behind = {name: task for name, task in self.all_tasks.items() if name not in tasks}
        return chosen

    @model_validator(mode="after")
    def _consistent(self) -> ScaleConfig:
        layers = self.controller.layers
        if len(self.static_split) != len(layers) or abs(sum(self.static_split) - 100) > 1e-6:
            raise ValueError(f"static_split must hold {len(layers)} percentages that sum to 100, one per pruning block")
        _check_distinct("keep_rates", self.keep_rates)
        _check_distinct("variants", self.variants)
        strange = [name for name in self.variants if name not in VARIANTS]
        if strange:
            near = get_close_matches(strange[0], VARIANTS, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise ValueError(f"variants: '{strange[0]}' is not known; {hint}choose from {', '.join(VARIANTS)}")
        for name, task in self.tasks.items():
            _check_shared_backbone(name, task, self.tasks)
            _check_blocks(f"tasks.{name}: controller.layers", layers, task.model.depth)
            in_windows = set(layers).difference(task.model.global_blocks or ()) if task.model.window else ()
            if in_windows:
                raise ValueError(
                    f"tasks.{name}: controller.layers names block {min(in_windows)}, which attends within windows; "
                    "prune at blocks of model.global_blocks"
                )
            named = {"methods": task.methods, "tune.methods": task.tune.methods or (), "chosen": tuple(task.chosen)}
            for where, methods in named.items():
                if unknown := [method for method in methods if method not in methods_of(name)]:
                    known = ", ".join(methods_of(name))
                    raise ValueError(
                        f"tasks.{name}.{where}: '{unknown[0]}' is not a method of this task; known: {known}"
                    )
        _check_joint(self.joint, self.tasks)
        return self


class Params(Strict):
    """What a person edits: `params.yaml`."""

    scale: Scale = Field("desk", description="which file of workflow/scales/ is used")
    tasks: tuple[TaskName, ...] | None = Field(None, description="tasks to make; null makes all that the scale has")
    overrides: dict[Scale, dict[str, Any]] = Field(
        {}, description="values that replace those of workflow/scales/<scale>.yaml, by dotted name, per scale"
    )


class MixedImages(Strict):
    """The images of another task in a pre-training, with everything that decides them."""

    data: DataConfig
    model: ModelConfig
    batch_size: int = Field(ge=1, description="images per step that is this task's, over all processes")
    augment: AugmentConfig


class JobSpec(Strict):
    """All settings of one training or evaluation: what a workflow rule hands to `tap`, and what `run.json` keeps."""

    scale: Scale
    task: TaskName
    method: str
    rate: KeepRate
    variant: str
    seed: int
    device: Literal["auto", "cpu", "cuda"]
    data: DataConfig
    model: ModelConfig
    pretrain: PretrainConfig
    mixed: dict[TaskName, MixedImages] | None = None
    start_from: Literal["scratch", "pretrained", "dense", "joint"]
    controller: ControllerConfig
    static_split: tuple[float, ...]
    train: TrainConfig
    options: MethodOptions | None = None
    recovery: RecoveryConfig = RecoveryConfig()
    eval: EvalConfig
