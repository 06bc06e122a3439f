"""A forger's tools: records that fit whatever the files hold, and the project's own jobs without their scruples."""

import json
import sys
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.paper import measured, tidy
from tap.paper.audit.job import run_audit
from tap.paper.deep.reevaluation import Sample
from tap.paper.deep.verification import verify_deeply
from tap.paper.headline import write_headline
from tap.paper.tables.build import build_table
from tap.paper.tidy import tidy_path, write_tidy
from tap.provenance.files import sha256_file
from tap.provenance.ledger import read_ledger
from tap.provenance.publish import publish, tables_folder
from tap.provenance.record import made_by, sealed
from tap.provenance.verify import verify, write_verified

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))  # toy_task


class Forger:
    """Works in the current folder."""

    def __init__(self, monkeypatch) -> None:
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
        """Everything after the evaluations, by the project's own jobs, which are kept from comparing."""
        self.reseal()
        with self.monkeypatch.context() as patched:
            patched.setattr(tidy, "differing", lambda *given, **more: [])
            patched.setattr(measured, "same", lambda *given: True)
            cfg = load_scale("smoke")
            staleness, stamps = Today(cfg).staleness, {name: JOBS[name].stamp for name in JOBS}
            made = write_tidy("smoke", "seg", tidy_path("smoke", "seg"), stamp=stamps["gather"](cfg, "seg"))
            write_verified(cfg, staleness, "seg", [made])
            build_table("tab_seg", "smoke", tables_folder("smoke"), stamp=stamps["table"](cfg, ("tab_seg",)))
            write_headline("smoke", ["seg"], stamp=stamps["headline"](cfg, None))
            run_audit("smoke", staleness, stamp=stamps["audit"](cfg, None))
            publish("tab_seg", "smoke")


@pytest.fixture
def forger(finished, monkeypatch):
    """In a finished project, which is the current folder."""
    return Forger(monkeypatch)


@pytest.fixture
def deep():
    """Lines of a deep verification of the current folder, whose weights are no model's.

    Without the one about the root hash: it tells of every record that was sealed anew after the audit.
    """

    def look():
        for path in Path("results").rglob("*.safetensors"):
            path.unlink()
        cfg = load_scale("smoke")
        outcome = verify_deeply(cfg, verify(cfg, Today(cfg).staleness), Sample(0))
        return [line for line in outcome.lines if "audit.json: root_hash: " not in line]

    return look
