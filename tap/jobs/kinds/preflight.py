"""The look at everything that trainings need, before the first one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from tap.config.datasets import CHECKED
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs import code_roots
from tap.jobs.job import Resources
from tap.jobs.of_scales import ScaleJob

REPORT = "results/{scale}/preflight.json"


class Preflight(ScaleJob):
    """Looks at placeholders, data, weights, schedules, disk and GPUs, and fails with all that is wrong."""

    name, command = "preflight", "preflight"
    about = "Look at data, weights, schedules, disk and GPUs before anything is trained; one list of what is wrong."
    makes: ClassVar[Mapping[str, str]] = {
        "report": REPORT,
        "record": "results/{scale}/preflight.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """All of the scale, by their hash: an edit of any has everything looked at again."""
        return {"settings": hashlib.sha256(cfg.model_dump_json().encode()).hexdigest()}

    def roots(self, cfg: ScaleConfig, key: None) -> Sequence[str]:
        """The look itself."""
        return ("tap.engine.preflight:preflight",)

    def libraries(self, key: None) -> tuple[str, ...]:
        """Those that build the models that weights are loaded into."""
        return code_roots.COMPUTING

    def resources(self, cfg: ScaleConfig, key: None) -> Resources:
        """The GPUs of the training that takes most, so that it is a machine of theirs that is looked at."""
        most = max(cfg.processes_of(task) for task in (*cfg.tasks, *([None] if cfg.joint else [])))
        return Resources(gpus=most if cfg.device == "cuda" else 0, memory_mb=8000)

    def run(self, cfg: ScaleConfig) -> None:
        """Looks."""
        from tap.engine.preflight import preflight
        from tap.provenance.files import atomic_write
        from tap.provenance.record import RECORD_SUFFIX, record_job

        started, found = datetime.now(UTC), preflight(cfg)
        print(found.render())
        if not found.ok:
            raise UserError(f"preflight: {len(found.problems)} thing(s) are wrong (above); nothing was started")
        report = Path(REPORT.format(scale=cfg.scale))
        atomic_write(report, json.dumps({"scale": cfg.scale, "facts": found.facts}, indent=1) + "\n")
        record = report.with_suffix(RECORD_SUFFIX)
        record_job(record, self.stamp(cfg, None), inputs=[], outputs=[report], started=started)


def comes_first(cfg: ScaleConfig) -> bool:
    """Whether checks of data and trainings wait for it: where data or weights are a person's own."""
    return any(task.data.name in CHECKED or task.pretrain.weights is not None for task in cfg.all_tasks.values())


JOB = Preflight()
