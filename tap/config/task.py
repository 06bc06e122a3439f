"""One pipeline, and which of its settings fit each other."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from tap.config.data import DataConfig
from tap.config.measuring import ControlConfig, EvalConfig, ProbeConfig, ProfileConfig
from tap.config.methods import DENSE, METHODS
from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.register import RecoveryConfig
from tap.config.schema import ChosenConfig, Length, PretrainConfig, TrainConfig
from tap.config.strict import Strict
from tap.config.tuning import TuneConfig
from tap.config.values import MethodName, check_blocks, check_distinct


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
        check_blocks("probes.layers", self.probes.layers or (), self.model.depth)
        check_distinct("methods", self.methods)
        _check_chosen(self)
        _check_options(self)
        _check_tune(self)
        check_distinct("seeds", self.seeds)
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
        check_blocks(f"options.{method}: layers", getattr(options, "layers", None) or (), task.model.depth)
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
