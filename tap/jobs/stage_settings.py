"""Which settings the jobs of a stage read, found out from the jobs themselves: other values give another plan.

DVC wants to know them by name, and nobody lists them: every section of a scale's settings is given other values in
turn. Where that changes which jobs a stage has, or what one of them is planned with, the stage reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tap.config.methods import METHODS
from tap.config.scale import ScaleConfig
from tap.config.schema import ChosenConfig
from tap.config.task import TaskConfig
from tap.errors import UserError
from tap.jobs.job import Job
from tap.jobs.registry import JOBS

EVERY_TASK: Final = "tasks.*."
"""How the name of a section begins that every task has."""
_NO_SECTIONS: Final = {"scale", "tasks"}
_ALIKE: Final = {"rate", "seed"}
"""Jobs that differ in these alone read the same."""


_REFUSED: Final = (UserError, ValueError, KeyError)


class Planned(NamedTuple):
    """A job of a stage.

    Attributes:
        kind: of the job.
        key: which one of the kind.
    """

    kind: Job[Any]
    key: Any


def settings_read(cfg: ScaleConfig) -> dict[str, list[str]]:
    """Names of the sections that the jobs of each stage read; ``tasks.*.data`` is that of any task."""
    jobs = jobs_of(cfg)
    found: dict[str, list[str]] = {}
    before = {stage: [(one, _plan(cfg, one)) for one in _unlike(cfg, planned)] for stage, planned in jobs.items()}
    for name in sections():
        other = with_other_values(cfg, name)
        there = jobs_of(other)
        for stage, planned in jobs.items():
            if there.get(stage) != planned or any(_plan(other, one) != text for one, text in before[stage]):
                found.setdefault(stage, []).append(name)
    return found


def sections() -> list[str]:
    """All sections of a scale's settings."""
    of_tasks = [f"{EVERY_TASK}{name}" for name in TaskConfig.model_fields]
    return [*(name for name in ScaleConfig.model_fields if name not in _NO_SECTIONS), *of_tasks]


def jobs_of(cfg: ScaleConfig) -> dict[str, list[Planned]]:
    """The jobs of every stage; none of a kind that refuses the settings."""
    found: dict[str, list[Planned]] = {}
    for kind in JOBS.values():
        try:
            stages = kind.stages(cfg)
        except _REFUSED:
            continue
        for stage, keys in stages.items():
            found.setdefault(stage, []).extend(Planned(kind, key) for key in keys)
    return found


def _unlike(cfg: ScaleConfig, jobs: Iterable[Planned]) -> list[Planned]:
    """Of the jobs that read the same the first one."""
    found: dict[tuple[str, ...], Planned] = {}
    for one in jobs:
        fields = one.kind.fields(cfg, one.key)[0]
        found.setdefault((one.kind.name, *(value for name, value in fields.items() if name not in _ALIKE)), one)
    return list(found.values())


def with_other_values(cfg: ScaleConfig, name: str) -> ScaleConfig:
    """The settings with other values in a section of the scale, or of all its tasks; each is possible by itself."""
    section = name.removeprefix(EVERY_TASK)
    if section == name:
        return cfg.model_copy(update=_others(cfg, [name]))
    changes = _chosen if section == "chosen" else partial(_others, names=[section])
    tasks = {task: settings.model_copy(update=changes(settings)) for task, settings in cfg.tasks.items()}
    return cfg.model_copy(update={"tasks": tasks})


def _chosen(task: TaskConfig) -> dict[str, Any]:
    """Values of their own for all methods: there are no others of what may be without any."""
    own = {
        name: {"controller": {"register_std": 1.0}} if METHODS[name].method.frozen else {"optimizer": {"lr": 1.0}}
        for name in task.methods
    }
    return {"chosen": {name: ChosenConfig.model_validate(values) for name, values in own.items()}}


def _plan(cfg: ScaleConfig, one: Planned) -> str | None:
    try:
        return one.kind.planned(cfg, one.key)
    except _REFUSED:
        return None  # values that it refuses are values that it reads


def _changed(section: BaseModel) -> BaseModel:
    """A section with other values in as many fields as may have them together."""
    for name in type(section).model_fields:
        try:
            section = type(section).model_validate(dict(section) | _others(section, [name]))
        except ValidationError:
            continue
    return section


def _others(value: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    """Other values of some fields."""
    fields = type(value).model_fields
    return {name: _other(getattr(value, name), _choices(fields[name].annotation)) for name in names}


def _other(value: Any, choices: Sequence[Any] = ()) -> Any:
    """Another value of the same form: every leaf is changed, and the last of some names is left out."""
    if isinstance(value, BaseModel):
        return _changed(value)
    if isinstance(value, Mapping):
        return {key: _other(part) for key, part in value.items()}
    if value in choices:
        return choices[choices.index(value) - 1]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value / 2 if isinstance(value, float) else value + 1
    if isinstance(value, str):
        return f"{value}-"
    if isinstance(value, Sequence):
        return tuple(value[:-1]) if value and isinstance(value[0], str) else tuple(map(_other, value))
    return value


def _choices(annotation: Any) -> list[Any]:
    """The words that a field may hold."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [word for part in get_args(annotation) for word in _choices(part)]
