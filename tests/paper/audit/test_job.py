"""The audit of results with records: intact, edited, and without a record."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tap.paper.audit.audit import make_audit
from tap.paper.audit.job import run_audit
from tap.paper.audit.report import to_json, to_markdown
from tap.paper.tidy import write_tidy
from tap.plan.results import tidy_path
from tap.provenance.record import Stamp, read_record, record_job


@pytest.fixture
def recorded(results) -> Path:
    """Runs of which TAP is clearly behind the static rule, each with a sealed record, and their tidy table."""
    (results.root / "params.yaml").write_text("scale: desk\noverrides:\n  desk: {tasks.cls.seeds: [0, 1, 2]}\n")
    accuracies = {"dense": 0.9, "static": 0.85, "tap": 0.7}
    for method, accuracy, seed in ((name, value, seed) for name, value in accuracies.items() for seed in (0, 1, 2)):
        folder = results.root / results.run(method, accuracy, seed=seed).folder
        (folder / "run.json").unlink()
        record_job(
            folder / "run.json",
            Stamp("evaluate", "f" * 64),
            inputs=[],
            outputs=[folder / "metrics.json", folder / "per_sample.npz"],
            started=datetime.now(UTC),
            facts={"spec": {}, "run": f"desk/{folder.relative_to(results.root / 'results/desk/runs')}"},
            root=results.root,
        )
    write_tidy("desk", "cls", results.root / tidy_path("desk", "cls"), results.root)
    return results.root


def verdict(root: Path) -> tuple[str, str]:
    """Of a claim that the runs contradict, with the sentence of its first part."""
    run_audit("desk", lambda content: None, root, Stamp("audit"))
    claims = json.loads((root / "results/desk/audit/audit.json").read_text())["claims"]
    found = {claim["id"]: claim for claim in claims}["gain-over-static"]
    return found["verdict"], found["parts"][0]["sentence"]


def test_results_as_their_jobs_made_them_are_judged_and_the_audit_has_a_record(recorded: Path) -> None:
    assert verdict(recorded)[0] == "contradicted"
    record = read_record(recorded / "results/desk/audit/audit.record.json")
    assert record is not None
    assert set(record["outputs"]) == {f"results/desk/audit/audit.{suffix}" for suffix in ("html", "json", "md")}
    assert tidy_path("desk", "cls").as_posix() in record["inputs"]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("results/desk/runs/cls/tap/r0.50/main/s0/metrics.json", '"top1": 70', '"top1": 95'),
        ("results/desk/runs/cls/tap/r0.50/main/s0/run.json", '"threads": 1', '"threads": 9'),
        ("results/desk/tidy_cls.csv", "top1,70", "top1,95"),
    ],
)
def test_an_edited_file_is_named_and_judges_nothing(recorded: Path, path: str, old: str, new: str) -> None:
    text = (recorded / path).read_text()
    assert old in text
    (recorded / path).write_text(text.replace(old, new, 1))
    found, sentence = verdict(recorded)
    assert found == "inconclusive"
    assert path in sentence
    assert path in (recorded / "results/desk/audit/audit.html").read_text()


def test_a_tidy_table_that_nobody_is_known_to_have_made_judges_nothing(recorded: Path) -> None:
    (recorded / "results/desk/tidy_cls.record.json").unlink()
    found, sentence = verdict(recorded)
    assert found == "inconclusive"
    assert "results/desk/tidy_cls.csv" in sentence


def test_an_audit_can_be_repeated(recorded: Path) -> None:
    verdict(recorded)
    before = (recorded / "results/desk/audit/audit.html").read_bytes()
    verdict(recorded)
    assert (recorded / "results/desk/audit/audit.html").read_bytes() == before


def test_the_audit_says_what_was_shown_by_replay(recorded):
    audit = make_audit("desk", recorded, replayed={"results/desk/run.json": "made by commit c; 11 steps replayed"})
    assert "- `results/desk/run.json`: made by commit c; 11 steps replayed" in to_markdown(audit)
    assert json.loads(to_json(audit))["replayed"] == {"results/desk/run.json": "made by commit c; 11 steps replayed"}
    assert "shown by replay" not in to_markdown(make_audit("desk", recorded))
