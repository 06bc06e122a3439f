"""Results of other code that a replay has shown to be those of today's, in a finished project."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.kinds.train import Train
from tap.jobs.staleness import Today
from tap.provenance.equivalence import code_as_recorded, holds, read_equivalence
from tap.provenance.finding import Kind
from tap.provenance.record import Stamp, equivalence_path, record_job
from tap.provenance.verify import require, verify
from tap.runs import Run

RECORD = Run("smoke", "seg", "tap", 0.5).folder / "run.json"


@pytest.fixture
def changed(finished, monkeypatch):
    """The code behind trainings of TAP is another one today."""
    before = Train.code
    now = f"{'0' * 64} torch==1"
    monkeypatch.setattr(Train, "code", lambda job, cfg, key: now if key.method == "tap" else before(job, cfg, key))
    return now


def verified(strict=False):
    cfg = load_scale("smoke")
    return verify(cfg, Today(cfg).staleness, strict=strict)


def show(now, before=None, **more):
    """What `tap recertify` writes of a run that it has found equal."""
    content = json.loads(RECORD.read_text())
    known = {"before": before or content["fingerprint"], "now": now.split()[0], "commit": "c" * 40, "shown": "11 steps"}
    return record_job(
        equivalence_path(RECORD),
        Stamp("equivalence", "", known | more),
        inputs=[RECORD],
        outputs=[],
        started=datetime.now(UTC),
        device="a processor",
    )


def stale():
    found = verified()
    return {finding.record for finding in found.findings if finding.kind == Kind.STALE}, found


def test_a_run_that_is_shown_equal_counts_as_made_by_todays_code(changed):
    assert stale()[0] == {RECORD.as_posix()}
    path = show(changed)
    records, found = stale()
    assert records == set()
    require(found)
    assert found.shown == {RECORD.as_posix(): str(read_equivalence(RECORD))}
    assert "made by commit cccccccccc; 11 steps replayed to the same bits on" in found.shown[RECORD.as_posix()]
    assert "1 made by earlier code, replayed with the same bits" in found.summary()
    assert path.as_posix() in found.files
    strict = verified(strict=True)
    assert [finding.record for finding in strict.findings] == [RECORD.as_posix()]


def test_the_workflow_carries_the_code_of_the_record(changed):
    recorded = json.loads(RECORD.read_text())["fingerprint"]
    assert code_as_recorded(RECORD, changed) == changed
    show(changed)
    assert code_as_recorded(RECORD, changed) == f"{recorded} torch==1"
    assert code_as_recorded(RECORD, f"{'1' * 64} torch==1") == f"{'1' * 64} torch==1", "later code still"
    assert code_as_recorded(RECORD.with_name("other.json"), changed) == changed


@pytest.mark.parametrize("how", ["another code before", "later code", "an edited one", "another record"])
def test_an_equivalence_that_does_not_fit_shows_nothing(changed, how):
    path = show(changed, before="f" * 64 if how == "another code before" else None)
    if how == "later code":
        path = show(f"{'2' * 64} torch==1")
    if how == "an edited one":
        path.write_text(path.read_text().replace("11 steps", "12 steps"))
    if how == "another record":
        content = json.loads(RECORD.read_text())
        record = RECORD.read_text()
        RECORD.write_text(record.replace(f'"threads": {content["threads"]}', '"threads": 77'))
    assert holds(RECORD, json.loads(RECORD.read_text()), changed) is None
    assert code_as_recorded(RECORD, changed) == changed
    assert verified().findings


def test_a_result_that_is_made_again_takes_its_equivalence_away(changed):
    path = show(changed)
    content = json.loads(RECORD.read_text())
    record_job(
        RECORD,
        Stamp("train", changed),
        inputs=[],
        outputs=[Path(name) for name in content["outputs"]],
        started=datetime.now(UTC),
    )
    assert not path.exists()
