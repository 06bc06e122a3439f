"""Jobs on one run: its training, its evaluation, its picture."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.jobs.arguments import RunArgument, ScaleOption, SpecOption
from tap.jobs.job import Content, Job
from tap.plan.specs import Reader, job_spec, parse_job, settings_of
from tap.provenance.record import Stamp
from tap.runs import Run

RUN_FOLDER = "results/{scale}/runs/{task}/{method}/r{rate}/{variant}/s{seed}"


def run_of_wildcards(cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Run:
    """The run that the wildcards of `RUN_FOLDER` name."""
    task, method, variant = (wildcards[name] for name in ("task", "method", "variant"))
    return Run(cfg.scale, task, method, float(wildcards["rate"]), variant, int(wildcards["seed"]))


def fields_of_run(run: Run) -> Mapping[str, str]:
    """The wildcards of `RUN_FOLDER`, as `run_of_wildcards` reads them."""
    return {
        "task": run.task,
        "method": run.method,
        "rate": f"{run.rate:.2f}",
        "variant": run.variant,
        "seed": str(run.seed),
    }


class RunJob(Job[Run]):
    """A job whose settings are those of a run.

    Attributes:
        reader: which of them it reads.
    """

    reader: ClassVar[Reader]

    @abstractmethod
    def run(self, cfg: ScaleConfig, spec: JobSpec, stamp: Stamp) -> None:
        """Does it."""

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Run:
        """The run whose folder a rule's output is in."""
        return run_of_wildcards(cfg, wildcards)

    def argument(self, key: Run) -> str:
        """The run's id."""
        return key.id

    def fields(self, cfg: ScaleConfig, key: Run) -> Sequence[Mapping[str, str]]:
        """Its parts."""
        return [fields_of_run(key)]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> Run:
        """The run that a record names."""
        scale, _, name = content["run"].partition("/")
        return Run.parse(scale, name)

    def settings(self, cfg: ScaleConfig, key: Run) -> Any:
        """What it reads of the run's settings."""
        return settings_of(job_spec(cfg, key).model_dump(mode="json"), self.reader)

    def recorded(self, content: Content) -> Any:
        """A record keeps all settings of the run."""
        return settings_of(content["spec"], self.reader)

    def stamp(self, cfg: ScaleConfig, key: Run) -> Stamp:
        """Without parameters, since the record keeps all settings of the run."""
        return Stamp(self.name, self.code(cfg, key), libraries=self.libraries(key))

    def call(self) -> Callable[..., None]:
        """Takes the run, and its settings from the rule or from params.yaml."""

        def call(run: RunArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            key = Run.parse(cfg.scale, run)
            settings = job_spec(cfg, key) if spec is None else parse_job(spec, self.reader, cfg, key)
            self.run(cfg, settings, self.stamp(cfg, key))

        return call
