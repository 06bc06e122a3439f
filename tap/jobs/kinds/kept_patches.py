"""The page that shows what the methods of a task keep, image by image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.files import data_evidence, evaluated_weights, of_package
from tap.jobs.job import Resources, evaluating
from tap.jobs.of_tasks import TaskJob
from tap.plan.endpoints import endpoint_file
from tap.plan.shown_runs import shown_specs, tasks_shown
from tap.plan.specs import settings_of
from tap.task_facts import TASKS


class KeptPatches(TaskJob):
    """Looks at a few validation images with every method."""

    name, command = "kept_patches", "kept"
    about = "Write the page that shows what each trained method of a task keeps of a few validation images."
    makes: ClassVar[Mapping[str, str]] = {
        "page": "results/{scale}/kept_patches/{task}.html",
        "pictured": "results/{scale}/kept_patches/{task}.npz",
        "record": "results/{scale}/kept_patches/{task}.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """Those of the runs that are shown."""
        specs = [spec.model_dump(mode="json") for spec in shown_specs(cfg, key)]
        return {"task": key, "specs": [settings_of(spec, "evaluate") for spec in specs]}

    def reads(self, cfg: ScaleConfig, key: str) -> Mapping[str, Sequence[Path]]:
        """Data and weights; some methods read the endpoint."""
        specs = shown_specs(cfg, key)
        weights = [path for spec in specs for path in evaluated_weights(spec)]
        endpoints = [path for path in map(endpoint_file, specs) if path is not None]
        return {
            "data": [data_evidence(cfg, key)],
            "weights": list(dict.fromkeys(weights)),
            "endpoint": list(dict.fromkeys(endpoints)),
            "page": of_package("paper/kept_page/*"),
        }

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """The page, the task, and the methods."""
        methods = sorted({spec.method for spec in shown_specs(cfg, key)})
        views = [module for module in (TASKS[key].views,) if module]
        return (
            "tap.paper.kept_patches:run_kept_patches",
            *views,
            *(root for name in methods for root in code_roots.of_model(key, name)),
        )

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[str]]:
        """The page of every task where something is removed."""
        return {"evaluate": tasks_shown(cfg)}

    def libraries(self, key: str) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key)

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """As an evaluation."""
        return evaluating(cfg, key)

    def run(self, cfg: ScaleConfig, key: str) -> None:
        """Looks and writes."""
        from tap.paper.kept_patches import run_kept_patches

        print(run_kept_patches(shown_specs(cfg, key), cfg.scale, key, self.stamp(cfg, key)))


JOB = KeptPatches()
