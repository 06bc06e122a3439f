"""The search of methods' own settings on the calibration split of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import typer

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, start_weights
from tap.jobs.job import Content, Job, Resources
from tap.jobs.kinds.train import in_processes
from tap.plan.runs import task_of
from tap.plan.tuning import (
    Search,
    candidate_spec,
    rounds_of,
    search_parameters,
    searched_methods,
    searched_seeds,
)
from tap.provenance.fingerprint import code_fingerprint

TUNE_FOLDER = "results/{scale}/tune/{task}"

BudgetOption = Annotated[
    bool, typer.Option("--budget", help="compare lengths of the trainings instead, each method with the values in use")
]


class TuneKey(NamedTuple):
    """Which search.

    Attributes:
        task: whose methods.
        search: `options` (values of their own) or `budget` (how long to train).
    """

    task: str
    search: Search


class Tune(Job[TuneKey]):
    """Trains as many candidates of every method, and judges them on the calibration split."""

    name, command = "tune", "tune"
    about = "Search each method's own settings on the calibration split, as many candidates for every method."
    makes: ClassVar[Mapping[str, str]] = {
        "result": f"{TUNE_FOLDER}/{{search}}.json",
        "values": f"{TUNE_FOLDER}/{{search}}.csv",
        "record": f"{TUNE_FOLDER}/{{search}}.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> TuneKey:
        """Task and search."""
        return TuneKey(wildcards["task"], "budget" if wildcards["search"] == "budget" else "options")

    def fields(self, cfg: ScaleConfig, key: TuneKey) -> Sequence[Mapping[str, str]]:
        """Task and search."""
        return [{"task": key.task, "search": key.search}]

    def argument(self, key: TuneKey) -> str:
        """The task, and which search."""
        return f"{key.task} --budget" if key.search == "budget" else key.task

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> TuneKey:
        """Task and search that a record names."""
        return self.key(cfg, content["parameters"])

    def settings(self, cfg: ScaleConfig, key: TuneKey) -> Any:
        """All that trainings and their judgement read, with the candidates; not what is chosen, but for a budget."""
        return search_parameters(cfg, key.task, key.search)

    def reads(self, cfg: ScaleConfig, key: TuneKey) -> Mapping[str, Sequence[Path]]:
        """Data, and what the candidates start from."""
        specs = [
            candidate_spec(cfg, key.task, key.search, candidate, seed)
            for candidate in rounds_of(cfg, key.task, key.search)[0]
            for seed in searched_seeds(cfg, key.task, key.search)
        ]
        return {
            "data": [data_evidence(cfg, key.task)],
            "start": list(dict.fromkeys(path for spec in specs for path in start_weights(spec))),
        }

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[TuneKey]]:
        """Those that are among the results of the scale."""
        return {"tables": among_results(cfg)}

    def roots(self, cfg: ScaleConfig, key: TuneKey) -> Sequence[str]:
        """The search, the task, and all methods that take part."""
        models = [root for name in searched_methods(cfg, key.task) for root in code_roots.of_model(key.task, name)]
        return ("tap.studies.tuning:run_search", *dict.fromkeys(models))

    def codes(self, cfg: ScaleConfig, key: TuneKey) -> dict[str, str]:
        """Fingerprint of the code behind the candidates of each method."""
        judged, libraries = "tap.studies.tuning:Trials", code_roots.computing_with(key.task)
        return {
            name: code_fingerprint([judged, *code_roots.of_model(key.task, name)], libraries)
            for name in searched_methods(cfg, key.task)
        }

    def libraries(self, key: TuneKey) -> tuple[str, ...]:
        """Those that compute, and that of the rank correlation."""
        return tuple(dict.fromkeys((*code_roots.computing_with(key.task), "scipy")))

    def resources(self, cfg: ScaleConfig, key: TuneKey) -> Resources:
        """As a training, for as long as its candidates take one after the other."""
        processes, settings = cfg.processes_of(key.task), task_of(cfg, key.task)
        threads = processes * (max(settings.method.threads, settings.dense.threads) + settings.data.workers)
        gpus = processes if cfg.device == "cuda" else 0
        return Resources(threads, gpus, *((128000, 4320) if cfg.scale == "paper" else (4000, 240)))

    def call(self) -> Callable[..., None]:
        """Takes the task, and which search."""

        def call(
            task: TaskArgument, budget: BudgetOption = False, scale: ScaleOption = None, spec: SpecOption = None
        ) -> None:
            cfg = load_scale(scale)
            key = TuneKey(task, "budget" if budget else "options")
            self.require_planned(cfg, key, spec)
            stamp, codes = self.stamp(cfg, key), self.codes(cfg, key)
            in_processes(cfg.processes_of(task), cfg.device)
            from tap.studies.tuning import run_search

            print(run_search(cfg, task, key.search, stamp, codes))

        return call


def among_results(cfg: ScaleConfig) -> list[TuneKey]:
    """The searches that a scale makes with its results."""
    return [TuneKey(task, "options") for task in built(cfg) if task_of(cfg, task).tune.among_results]


JOB = Tune()
