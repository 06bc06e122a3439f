"""What a search of methods' own settings tries (`tap tune`), and what its result says of the settings in use.

A candidate is a training like that of the method's run, with values of its own in the place of those that the settings
choose (`tasks.<task>.chosen`). So what is chosen never decides what is searched, and putting a winner into the settings
makes no search stale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tap.config.methods import DENSE, FROZEN, WITH_REGISTER
from tap.config.scale import ScaleConfig
from tap.config.schema import ChosenConfig, JobSpec, TrainConfig
from tap.errors import UserError
from tap.plan.runs import task_of
from tap.plan.specs import job_spec, settings_of
from tap.runs import Run

Search = Literal["options", "budget"]
SEARCHES: Final[tuple[Search, ...]] = ("options", "budget")
"""Which values of its own a method has, and how many steps the order of methods needs."""


class Candidate(NamedTuple):
    """One training of a search.

    Attributes:
        method: what is trained.
        number: which of the method's candidates, from 1.
        values: the method's own.
        length: factor on the length of the task's trainings.
    """

    method: str
    number: int
    values: ChosenConfig
    length: float = 1.0

    @property
    def text(self) -> str:
        """Its values in words."""
        found = [f"{name.rpartition('.')[2]} {_flow(value)}" for name, value in self.values.changes.items()]
        return ", ".join(found) or "the values of all"


def searched_methods(cfg: ScaleConfig, task: str) -> tuple[str, ...]:
    """The methods of a task that take part, no pruning first.

    Raises:
        UserError: the scale does not have the task.
    """
    settings = task_of(cfg, task)
    given = settings.methods if settings.tune.methods is None else settings.tune.methods
    return (DENSE, *(name for name in settings.methods if name in given and name not in (DENSE, *FROZEN)))


def searched_seeds(cfg: ScaleConfig, task: str, search: Search = "options") -> tuple[int, ...]:
    """The seeds whose mean score decides."""
    settings = task_of(cfg, task)
    given = settings.tune.seeds if search == "options" else settings.tune.budget_seeds
    return settings.seeds if given == "all" else given or settings.seeds[:1]


def rounds_of(cfg: ScaleConfig, task: str, search: Search) -> list[list[Candidate]]:
    """The candidates of a search, no pruning first, in rounds of trainings of one length.

    The candidates of a round that learn from a model without pruning, or whose recovery has to be chosen with one, do
    so with the best of the round.
    """
    settings, methods = task_of(cfg, task), searched_methods(cfg, task)
    if search == "options":
        tried = {name: _values(cfg, task, name) for name in methods}
        return [[Candidate(name, at, each) for name in methods for at, each in enumerate(tried[name], start=1)]]
    own = {name: settings.chosen.get(name, ChosenConfig()) for name in methods}
    return [
        [Candidate(name, at, own[name], length) for name in methods]
        for at, length in enumerate(settings.tune.length_scales, start=1)
    ]


def _values(cfg: ScaleConfig, task: str, method: str) -> list[ChosenConfig]:
    """The grid: as many values for every method (`TuneConfig` sees to that)."""
    tune, common = task_of(cfg, task).tune, _spec(cfg, task, method, ChosenConfig(), 0).train.optimizer.lr

    def rate(scale: float) -> dict[str, float]:
        return {"lr": float(f"{common * scale:.6g}")}

    if method not in WITH_REGISTER:
        return [ChosenConfig(optimizer=rate(scale)) for scale in tune.lr_scales]
    return [
        ChosenConfig(
            controller={"register_start": start},
            # At a factor of 1 a rate is nobody's own, so that advice names none.
            optimizer={"controller_lr_scale": controller} | (rate(scale) if scale != 1 else {}),
        )
        for start, controller, scale in product(
            tune.register_starts, tune.controller_lr_scales, tune.register_lr_scales
        )
    ]


def candidate_spec(cfg: ScaleConfig, task: str, search: Search, candidate: Candidate, seed: int) -> JobSpec:
    """All settings of a candidate's training. Its variant names it in messages and in its scratch folder, no result."""
    spec = _spec(cfg, task, candidate.method, candidate.values, seed)
    train = spec.train if candidate.length == 1.0 else scaled(spec.train, candidate.length)
    return spec.model_copy(update={"train": train, "variant": f"tune-{search}-{candidate.number}"})


def _spec(cfg: ScaleConfig, task: str, method: str, values: ChosenConfig, seed: int) -> JobSpec:
    """The settings of a method's run with other values of its own."""
    settings = task_of(cfg, task).model_copy(update={"chosen": {method: values}})
    other = cfg.model_copy(update={"tasks": {**cfg.all_tasks, task: settings}})
    other._behind = {}
    return job_spec(other, _run(cfg, task, method, seed))


def _run(cfg: ScaleConfig, task: str, method: str, seed: int) -> Run:
    return Run(cfg.scale, task, method, 1.0 if method == DENSE else cfg.main_rate, seed=seed)


def scaled(train: TrainConfig, factor: float) -> TrainConfig:
    """A training of another length, whose warm-up and drops are at the same shares of it."""
    schedule = train.schedule.model_copy(
        update={
            "warmup": train.schedule.warmup * factor,
            "milestones": tuple(milestone * factor for milestone in train.schedule.milestones),
        }
    )
    tree = train.model_dump() | {"length": train.length * factor, "schedule": schedule.model_dump()}
    return TrainConfig.model_validate(tree)


def search_parameters(cfg: ScaleConfig, task: str, search: Search) -> dict[str, Any]:
    """What a search reads of the settings, as plain values: of each method all of its first candidate, and the rest."""
    rounds, seeds = rounds_of(cfg, task, search), searched_seeds(cfg, task, search)
    candidates = [candidate for each in rounds for candidate in each]
    first = {candidate.method: candidate for candidate in reversed(candidates)}
    specs = {name: candidate_spec(cfg, task, search, each, seeds[0]) for name, each in first.items()}
    found = {
        "task": task,
        "search": search,
        "seeds": list(seeds),
        "candidates": [[each.method, each.number, each.length, each.values.changes] for each in candidates],
        "methods": {name: searched_settings(spec) for name, spec in specs.items()},
    }
    return found if search == "options" else {**found, "agreement": task_of(cfg, task).tune.agreement}


def searched_settings(spec: JobSpec) -> dict[str, Any]:
    """What the training of a candidate and its judgement read, as plain values; without nulls."""
    tree = spec.model_dump(mode="json")
    return {**settings_of(tree, "train"), "eval": settings_of(tree, "evaluate")["eval"]}


def search_path(scale: str, task: str, search: Search) -> Path:
    """The file with the result of a search."""
    return Path("results") / scale / "tune" / task / f"{search}.json"


def read_search(path: Path) -> dict[str, Any]:
    """The result of a search.

    Raises:
        UserError: it is not there, or holds none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content["methods"], Mapping):
            return dict(content)
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no search yet; `tap tune {path.parent.name}` makes it") from error
    except (KeyError, TypeError, ValueError):
        pass
    raise UserError(f"{path}: holds no search; delete it, and make it with `tap tune {path.parent.name}`")


def in_use(cfg: ScaleConfig, task: str, method: str, values: ChosenConfig) -> bool:
    """Whether the settings give a method what some values of its own would."""
    seed = searched_seeds(cfg, task)[0]
    return _alike(_spec(cfg, task, method, values, seed), job_spec(cfg, _run(cfg, task, method, seed)))


def own_values(cfg: ScaleConfig, task: str, method: str) -> dict[str, Any]:
    """The values that the settings give a method of those that searches try."""
    spec = job_spec(cfg, _run(cfg, task, method, searched_seeds(cfg, task)[0]))
    optimizer = spec.train.optimizer
    if method not in WITH_REGISTER:
        return {"lr": optimizer.lr}
    start, scale = spec.controller.register_start, optimizer.controller_lr_scale
    return {"register_start": start, "controller_lr_scale": scale, "lr": optimizer.lr}


def _alike(one: JobSpec, other: JobSpec) -> bool:
    return (one.controller, one.train) == (other.controller, other.train)


def best_values(cfg: ScaleConfig, task: str, found: Mapping[str, Any]) -> dict[str, ChosenConfig]:
    """What a search found best, by method, of the methods that take part today.

    Args:
        cfg: the settings in use.
        task: whose search.
        found: its result (`read_search`).
    """
    known = {name: each for name, each in found["methods"].items() if name in searched_methods(cfg, task)}
    candidates = {name: each["candidates"][int(each["best"]) - 1] for name, each in known.items()}
    return {name: ChosenConfig.model_validate(each["values"]) for name, each in candidates.items()}


def advice(cfg: ScaleConfig, task: str, found: Mapping[str, Any]) -> str:
    """What the settings would have to say for every method to have what a search found best; empty if they do.

    Arguments as of `best_values`.
    """
    best = best_values(cfg, task, found)
    other = [name for name, values in best.items() if not in_use(cfg, task, name, values)]
    if not other:
        return ""
    seed = searched_seeds(cfg, task)[0]
    without = {name: _spec(cfg, task, name, ChosenConfig(), seed) for name in best}
    wanted = {n: v for n, v in task_of(cfg, task).chosen.items() if n not in best}  # of methods that no search judges
    wanted |= {n: v for n, v in best.items() if not _alike(without[n], _spec(cfg, task, n, v, seed))}
    return "\n    ".join(
        [
            f"tasks.{task}.chosen: the search found other values best for {', '.join(other)}; to have them, write",
            *yaml_lines(wanted),
            f"below {task} in workflow/scales/{cfg.scale}.yaml",
        ]
    )


def budget_in_words(found: Mapping[str, Any]) -> str:
    """What a search of the budget found.

    Args:
        found: its result (`read_search`).
    """
    pairs = ", ".join("none" if tau is None else f"{tau:.2f}" for tau in found["agreement_with_next"])
    lengths, enough = ", ".join(f"{length:g}" for length in found["lengths"]), found["shortest"]
    return f"Trainings of {lengths} {found['unit']}; Kendall's tau of each with the next {pairs}. " + (
        f"The order of methods stays the same from {enough:g} on."
        if enough is not None
        else "The order of methods still changes at the longest (tune.length_scales)."
    )


def yaml_lines(values: Mapping[str, ChosenConfig]) -> list[str]:
    """The lines of a scale's file, below a task, that give methods values of their own, and none to others."""
    if not values:
        return ["chosen: {}"]
    parts = {name: each.model_dump(exclude_defaults=True) for name, each in values.items()}
    return ["chosen:", *(f"  {name}: {_flow(part)}" for name, part in parts.items())]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(part)}" for name, part in value.items()) + "}"
    if isinstance(value, float) and "e" in f"{value:g}":
        mantissa, _, exponent = f"{value:g}".partition("e")  # YAML 1.1 reads 1e-05 as a text
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    return f"{value:g}" if isinstance(value, float) else str(value)
