"""The evaluation of a run: score and token counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, evaluated_weights, weights
from tap.jobs.job import Resources, evaluating
from tap.jobs.of_runs import RUN_FOLDER, RunJob
from tap.plan.endpoints import endpoint_file
from tap.plan.joint import other_registers
from tap.plan.runs import run_of, runs_of_table
from tap.plan.specs import job_spec
from tap.provenance.record import Stamp
from tap.runs import Run


class Evaluate(RunJob):
    """Measures the weights of a run."""

    name, command, reader = "evaluate", "evaluate", "evaluate"
    about = "Evaluate a trained run."
    makes: ClassVar[Mapping[str, str]] = {
        "metrics": f"{RUN_FOLDER}/metrics.json",
        "per_sample": f"{RUN_FOLDER}/per_sample.npz",
        "record": f"{RUN_FOLDER}/evaluation.json",
    }

    def reads(self, cfg: ScaleConfig, key: Run) -> Mapping[str, Sequence[Path]]:
        """Data and weights; a joint run the registers of its other tasks, too, and some methods the endpoint."""
        spec = job_spec(cfg, key)
        endpoint = endpoint_file(spec)
        return {
            "data": [data_evidence(cfg, key.task)],
            "weights": evaluated_weights(spec),
            "registers": [weights(run) for run in other_registers(cfg, key).values()],
            "endpoint": [] if endpoint is None else [endpoint],
        }

    def roots(self, cfg: ScaleConfig, key: Run) -> Sequence[str]:
        """The evaluation, task and method."""
        return ("tap.studies.evaluation:evaluate_run", *code_roots.of_model(key.task, key.method))

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Run]]:
        """What all runs measured."""
        return {"evaluate": [run for task in built(cfg) for run in runs_of_table(cfg, task)]}

    def libraries(self, key: Run) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key.task)

    def resources(self, cfg: ScaleConfig, key: Run) -> Resources:
        """Passes over the images."""
        return evaluating(cfg, key.task)

    def run(self, cfg: ScaleConfig, spec: JobSpec, stamp: Stamp) -> None:
        """Evaluates."""
        from tap.studies.evaluation import evaluate_run
        from tap.tasks.registry import get_task

        evaluate_run(spec, get_task(spec), stamp, other_registers(cfg, run_of(spec)))


JOB = Evaluate()
