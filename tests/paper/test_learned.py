"""A register that did not learn: which runs are marked, and that no claim is supported or judged by one."""

from __future__ import annotations

import pytest

from tap.paper.audit.claim import load_claims
from tap.paper.audit.outcome import Verdict, combine
from tap.paper.audit.predicates import OF_LEARNING
from tap.paper.learned import learning_note, unlearned
from tap.paper.tables.build import render_table
from tap.runs import Run

MOVED = {"register_fresh_correlation": 0.4, "register_distance": 0.3}


def start_of(task):
    """What an evaluation states of a register as it begins: equal shares of what is left, half of the offset."""
    shares = {3: 100 / 3, 6: 200 / 9, 9: 400 / 9}
    found = {f"removal_share_{block}": share for block, share in shares.items()}
    found |= {f"removal_share_{block}_sd": 0.0 for block in shares}
    if task != "cls":
        found |= {f"recovery_scale_{block}": 0.5 for block in shares} | {
            f"recovery_scale_{block}_sd": 0.0 for block in shares
        }
    return found | {"register_distance": 0.0, "register_cosine": 1.0, "register_fresh_correlation": 0.5}


@pytest.fixture
def untrained(project):
    """A scale in which every run with a register has the one that it started with, and is the best of all."""
    runs = []
    for method in ("dense", "random", "attn_topk", "static", "cropr", "tap", "tap_f"):
        own = method.startswith("tap")
        for seed in (0, 1, 2):
            more = start_of("cls") if own else {}
            runs.append(project.add_cls(method, 0.9 if own else 0.6, seed, **more))
            for task, metrics in {"seg": ("miou",), "det": ("box_ap", "mask_ap")}.items():
                run = Run("desk", task, method, 1.0 if method == "dense" else 0.5, seed=seed)
                values = dict.fromkeys(metrics, 60.0 if own else 50.0) | {"device": "a CPU"}
                runs.append(project.add(run, values | (start_of(task) if own else {})))
    return project.evidence(runs)


def verdicts(evidence):
    """Verdicts of the parts about learning, by claim, that rest on a run with a register."""
    return [
        (claim.id, outcome.verdict)
        for claim in load_claims()
        for part, outcome in zip(claim.parts, claim.judge(evidence).outcomes, strict=True)
        if part.predicate in OF_LEARNING and any("/tap" in run for run in outcome.runs)
    ]


def test_nothing_that_an_untrained_register_scores_supports_a_claim_about_it(untrained, monkeypatch):
    found = verdicts(untrained)
    assert {verdict for _, verdict in found} <= {Verdict.NOT_COMPARABLE, Verdict.CONTRADICTED, Verdict.NOT_MEASURED}
    comparable = {name for name, verdict in found if verdict == Verdict.NOT_COMPARABLE}
    assert {"recovery-scale", "early-removal", "first-detection-decision", "gain-over-static"} <= comparable
    monkeypatch.setattr("tap.paper.audit.comparable.learning_note", lambda evidence, runs: "")
    assert Verdict.SUPPORTED in {verdict for _, verdict in verdicts(untrained)}


def test_thresholds_are_away_from_where_a_register_starts(untrained, monkeypatch):
    """Even without the precondition the initial values do not support what the paper reads from the learned ones."""
    monkeypatch.setattr("tap.paper.audit.comparable.learning_note", lambda evidence, runs: "")
    claims = {claim.id: claim for claim in load_claims()}
    for name in ("recovery-scale", "early-removal"):
        assert claims[name].judge(untrained).verdict == Verdict.CONTRADICTED, name


def test_a_run_is_marked_by_its_correlation_or_because_it_did_not_move(project):
    stated = {0: {**MOVED, "register_fresh_correlation": 0.981}, 1: MOVED, 2: {**MOVED, "register_distance": 0.0}}
    stated |= {3: MOVED | {"register_start_correlation": 0.985}, 4: MOVED | {"register_start_correlation": 0.97}}
    runs = [project.add_cls("tap", 0.7, seed, **values) for seed, values in stated.items()]
    runs += [project.add_cls("static", 0.7), project.add_cls("dense", 0.8)]
    evidence = project.evidence(runs)
    found = unlearned(evidence, [run.id for run in runs])
    assert list(found) == [f"cls/tap/r0.50/main/s{seed}" for seed in (0, 2, 3)]
    assert found["cls/tap/r0.50/main/s3"] == "ranks as its start does, correlation 0.985"
    assert "correlation 0.981" in learning_note(evidence, [runs[0].id])
    assert learning_note(evidence, [runs[1].id]) == ""
    files = render_table("tab_cls", evidence)
    for suffix in (".tex", ".compare.md"):
        assert "Register did not learn: cls/tap/r0.50/main/s0" in files[suffix].decode().replace("\\_", "_")
    row = next(line for line in files[".tex"].decode().splitlines() if line.startswith("TAP-J"))
    assert "70" in row


def test_the_table_of_the_register_says_who_has_learned(project):
    runs = [project.add_cls("tap", 0.7, seed, **MOVED, register_fresh_overlap=0.6) for seed in (0, 1)]
    runs.append(project.add_cls("tap", 0.7, 0, 0.3, register_fresh_correlation=0.99, register_distance=0.1))
    text = render_table("tab_register_decides", project.evidence(runs))[".tex"].decode()
    assert "TAP-J at 0.5 & 0.400 (0.600)" in text
    assert "no (1 of 1)" in text


def test_parts_that_cannot_be_compared_make_a_claim_that_cannot():
    none, absent = Verdict.NOT_COMPARABLE, Verdict.NOT_MEASURED
    assert combine([none, absent]) == none
    assert combine([none, Verdict.SUPPORTED]) == Verdict.INCONCLUSIVE
    assert combine([none, Verdict.CONTRADICTED]) == Verdict.CONTRADICTED
    assert combine([absent, absent]) == absent
