"""Which tasks may share a backbone or a frozen base."""

from __future__ import annotations

from collections.abc import Mapping

from tap.config.joint import JointConfig
from tap.config.methods import METHODS
from tap.config.model import ModelConfig
from tap.config.task import TaskConfig
from tap.config.values import TaskName


def check_shared_backbone(name: str, task: TaskConfig, tasks: Mapping[TaskName, TaskConfig]) -> None:
    """Refuses a backbone, a start or images of another task that do not fit this one's model.

    Raises:
        ValueError: names the setting.
    """
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


def check_joint(joint: JointConfig | None, tasks: Mapping[TaskName, TaskConfig]) -> None:
    """Refuses what a method with one frozen base for all tasks cannot be trained with.

    Raises:
        ValueError: names the setting.
    """
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
