"""The endpoint of the common recovery of a dense task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, weights
from tap.jobs.job import Resources, evaluating
from tap.jobs.of_tasks import TaskJob
from tap.plan.endpoints import endpoint_file
from tap.plan.runs import dense_run, task_of
from tap.plan.specs import endpoint_specs, settings_of


class Endpoint(TaskJob):
    """Chooses the full offset or the stand-in alone on the calibration split."""

    name, command = "endpoint", "endpoint"
    about = "Choose the endpoint of the common recovery of a dense task on its calibration split."
    makes: ClassVar[Mapping[str, str]] = {
        "endpoint": "results/{scale}/endpoint_{task}.json",
        "record": "results/{scale}/endpoint_{task}.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """Those of the runs that take part."""
        specs = [spec.model_dump(mode="json") for spec in endpoint_specs(cfg, key)]
        return {"task": key, "specs": [settings_of(spec, "evaluate") for spec in specs]}

    def reads(self, cfg: ScaleConfig, key: str) -> Mapping[str, Sequence[Path]]:
        """Data, and the no-pruning weights of all seeds."""
        runs = [dense_run(cfg, key, seed) for seed in task_of(cfg, key).seeds]
        return {"data": [data_evidence(cfg, key)], "weights": [weights(run) for run in runs]}

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[str]]:
        """Those that methods are trained with."""
        return {"baselines": [task for task in built(cfg) if any(map(endpoint_file, endpoint_specs(cfg, task)))]}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """The choice, the task, and the methods that take part."""
        methods = sorted({spec.method for spec in endpoint_specs(cfg, key)})
        return (
            "tap.studies.endpoint:run_endpoint",
            *(root for name in methods for root in code_roots.of_model(key, name)),
        )

    def libraries(self, key: str) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key)

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """As an evaluation."""
        return evaluating(cfg, key)

    def run(self, cfg: ScaleConfig, key: str) -> None:
        """Chooses."""
        specs = endpoint_specs(cfg, key)
        from tap.studies.endpoint import run_endpoint

        print(run_endpoint(specs, self.stamp(cfg, key)))


JOB = Endpoint()
