"""All controls of a trained TAP checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import RunArgument, ScaleOption, SpecOption
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, evaluated_weights
from tap.jobs.job import Content, Job, Resources, evaluating_long
from tap.jobs.of_runs import RUN_FOLDER, fields_of_run, run_of_wildcards
from tap.plan.controls import control_parameters, controlled_runs
from tap.plan.specs import job_spec
from tap.runs import Run


class ControlJob(Job[Run]):
    """Evaluates a checkpoint with other allocations, matching rules and recovery scales."""

    name, command = "control", "control"
    about = "Evaluate a trained TAP run with other allocations, matching rules and recovery scales, and its oracle."
    makes: ClassVar[Mapping[str, str]] = {
        "values": f"{RUN_FOLDER}/controls.csv",
        "arrays": f"{RUN_FOLDER}/controls.npz",
        "record": f"{RUN_FOLDER}/controls.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Run:
        """The run whose folder a rule's output is in."""
        return run_of_wildcards(cfg, wildcards)

    def fields(self, cfg: ScaleConfig, key: Run) -> Sequence[Mapping[str, str]]:
        """Its parts."""
        return [fields_of_run(key)]

    def argument(self, key: Run) -> str:
        """The run's id."""
        return key.id

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> Run:
        """The run that a record names."""
        return Run.parse(cfg.scale, str(content["parameters"]["run"]))

    def settings(self, cfg: ScaleConfig, key: Run) -> Any:
        """Those of the run and of the controls."""
        return control_parameters(cfg, key)

    def reads(self, cfg: ScaleConfig, key: Run) -> Mapping[str, Sequence[Path]]:
        """Data and weights."""
        return {"data": [data_evidence(cfg, key.task)], "weights": evaluated_weights(job_spec(cfg, key))}

    def roots(self, cfg: ScaleConfig, key: Run) -> Sequence[str]:
        """The controls, task and method."""
        return ("tap.studies.controls:run_controls", *code_roots.of_model(key.task, key.method))

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Run]]:
        """Those of all checkpoints."""
        return {"evaluate": [run for task in built(cfg) for run in controlled_runs(cfg, task)]}

    def libraries(self, key: Run) -> tuple[str, ...]:
        """Those that compute, and that of tables."""
        return (*code_roots.computing_with(key.task), "pandas")

    def resources(self, cfg: ScaleConfig, key: Run) -> Resources:
        """As an evaluation, for as long as the oracle's 231 splits may take."""
        return evaluating_long(cfg, key.task)

    def call(self) -> Callable[..., None]:
        """Takes the run."""

        def call(run: RunArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            key = Run.parse(cfg.scale, run)
            self.require_planned(cfg, key, spec)
            stamp = self.stamp(cfg, key)
            from tap.studies.controls import run_controls

            print(run_controls(cfg, key, stamp))

        return call


JOB = ControlJob()
