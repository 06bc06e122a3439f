"""The picture of a run of a dense task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.jobs import code_roots
from tap.jobs.files import data_evidence, evaluated_weights
from tap.jobs.job import Resources
from tap.jobs.of_runs import RUN_FOLDER, RunJob
from tap.plan.runs import pictured_runs
from tap.plan.specs import job_spec
from tap.provenance.record import Stamp
from tap.runs import Run
from tap.task_facts import TASKS


class Picture(RunJob):
    """Draws what a run predicts and keeps."""

    name, command, reader = "picture", "picture", "evaluate"
    about = "Draw what a trained run of a dense task predicts and keeps on a few validation images."
    makes: ClassVar[Mapping[str, str]] = {
        "picture": f"{RUN_FOLDER}/picture.png",
        "record": f"{RUN_FOLDER}/picture.json",
    }

    def reads(self, cfg: ScaleConfig, key: Run) -> Mapping[str, Sequence[Path]]:
        """Data and weights."""
        return {"data": [data_evidence(cfg, key.task)], "weights": evaluated_weights(job_spec(cfg, key))}

    def roots(self, cfg: ScaleConfig, key: Run) -> Sequence[str]:
        """The drawing, task and method."""
        drawing = [module for module in (TASKS[key.task].drawing,) if module]
        return ("tap.studies.picture:run_picture", *drawing, *code_roots.of_model(key.task, key.method))

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Run]]:
        """Those that a person looks at."""
        return {"evaluate": pictured_runs(cfg)}

    def libraries(self, key: Run) -> tuple[str, ...]:
        """Those that compute, and the one that draws."""
        return (*code_roots.computing_with(key.task), "matplotlib")

    def resources(self, cfg: ScaleConfig, key: Run) -> Resources:
        """A few images."""
        return Resources(gpus=1 if cfg.device == "cuda" else 0, memory_mb=16000 if cfg.scale == "paper" else 4000)

    def run(self, cfg: ScaleConfig, spec: JobSpec, stamp: Stamp) -> None:
        """Draws."""
        from tap.studies.picture import run_picture

        print(run_picture(spec, stamp))


JOB = Picture()
