"""A forger's tools: records that fit whatever the files hold, and the project's own jobs without their scruples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tap.config import load_scale
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.paper import measured, tidy
from tap.paper.audit.job import run_audit
from tap.paper.headline import write_headline
from tap.paper.tidy import write_tidy
from tap.plan.results import tidy_path
from tap.provenance.files import sha256_file
from tap.provenance.ledger import read_ledger
from tap.provenance.publish import publish
from tap.provenance.record import made_by, sealed
from tap.provenance.verify import write_verified


class Forger:
    """Works in the current folder, on the results of the smoke scale."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def reseal(self) -> None:
        """Makes every record name what is there, each after those that it builds on."""
        ledger = read_ledger(load_scale("smoke"))
        for name in ledger.in_order():
            content = json.loads(Path(name).read_text())
            for facts in (content["inputs"], content["outputs"]):
                for file, told in facts.items():
                    if not Path(file).is_file():  # outside of the project
                        continue
                    told |= {"sha256": sha256_file(file), "bytes": Path(file).stat().st_size}
                    if "made" in told:
                        told["made"] = made_by(json.loads(Path(file).read_text()))
            Path(name).write_text(sealed(content))

    def remake(self) -> None:
        """Everything after the evaluations, by the project's own jobs in their order, which are kept from comparing."""
        self.reseal()
        ledger = read_ledger(load_scale("smoke"))
        with self.monkeypatch.context() as patched:
            patched.setattr(tidy, "differing", lambda *given, **more: [])
            patched.setattr(measured, "same", lambda *given: True)
            for name in ledger.in_order():
                self._make(ledger.records[name].job, ledger.records[name].content)

    @staticmethod
    def _make(job: str, content: dict[str, Any]) -> None:
        cfg = load_scale("smoke")
        if job in ("gather", "verify", "table", "figure", "headline", "audit", "publish"):
            key = JOBS[job].key_of_record(cfg, content)
        if job == "gather":
            write_tidy("smoke", key, tidy_path("smoke", key), stamp=JOBS[job].stamp(cfg, key))
        elif job == "verify":
            write_verified(cfg, Today(cfg).staleness, key, content["parameters"]["targets"])
        elif job in ("table", "figure"):
            JOBS[job].run(cfg, key[0], JOBS[job].folder(cfg))
        elif job == "headline":
            write_headline("smoke", list(cfg.tasks), stamp=JOBS[job].stamp(cfg, key))
        elif job == "audit":
            run_audit("smoke", Today(cfg).staleness, stamp=JOBS[job].stamp(cfg, key))
        elif job == "paper_page":
            JOBS[job].run(cfg)
        elif job == "publish":
            publish(key[0], "smoke")


def replaced(path: Path | str, pattern: str, new: str) -> None:
    """Puts something else in the first place of a text file that a pattern fits, of which there must be one."""
    text = Path(path).read_text()
    changed = re.sub(pattern, new, text, count=1)
    assert changed != text, f"{path} holds no {pattern!r}"
    Path(path).write_text(changed)
