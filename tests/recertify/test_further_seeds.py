"""Which jobs are replayed in full: the first seed of the same settings."""

import json
from types import SimpleNamespace

from tap.provenance.ledger import Record
from tap.recertify import recertify
from tap.recertify.recertify import of_further_seeds


def test_only_further_seeds_of_the_same_job_and_settings_are_brief():
    jobs = [
        ("train", "desk/cls/tap/r0.50/main/s0"),
        ("evaluate", "desk/cls/tap/r0.50/main/s0"),
        ("train", "desk/cls/tap/r0.50/main/s2"),
        ("train", "desk/cls/tap/r0.30/main/s2"),
        ("train", "desk/seg/tap/r0.50/main/s2"),
        ("evaluate", "desk/cls/tap/r0.50/main/s1"),
    ]
    records = [Record(f"{run} {job}", {"job": job, "run": run}, True) for job, run in jobs]
    probes = [
        Record(f"results/desk/probes/{task}/layers/probe.json", {"job": "probe"}, True) for task in ("cls", "seg")
    ]
    further = {f"{run} {job}" for job, run in (jobs[2], jobs[5])}
    assert of_further_seeds([*records, *probes]) == further


def test_a_further_seed_does_not_count_where_the_first_one_differs(tmp_path, monkeypatch):
    """Its brief replay is equal, and shows less than the one that is not."""
    runs = [f"desk/cls/{method}/r0.50/main/s{seed}" for method in ("tap", "tome") for seed in (0, 1)]
    records = [Record(run, {"job": "train", "run": run}, True) for run in runs]
    for whose, values in (("before", "0000"), ("now", "1000")):
        answers = [json.dumps({"trace": [["step 0", "log loss", value]]}) for value in values]
        (tmp_path / whose).write_text("\n".join(answers))
    today, written = SimpleNamespace(code_of=lambda content: "code"), []
    monkeypatch.setattr(recertify, "Today", lambda cfg: today)
    monkeypatch.setattr(recertify, "_answers", lambda *_, old: tmp_path / ("before" if old else "now"))
    monkeypatch.setattr(recertify, "_write", lambda record, *_: written.append(record.name))
    outcomes = recertify._replay(None, today, records, "commit", tmp_path, tmp_path, lambda line: None)
    assert [outcome.equal for outcome in outcomes] == [False, False, True, True]
    assert "an earlier seed differs" in outcomes[1].reason
    assert written == runs[2:]
