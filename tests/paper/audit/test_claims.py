from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.audit.claim import FOLDER, load_claims, read_claim
from tap.paper.audit.outcome import Verdict, combine
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.statements import load_statements

ROOT = Path(__file__).parents[3]

GOOD = """
id: sample
title: A sample
source: text
where: Somewhere
evidence: {tables: ["tab:cls"]}
parts:
  - says: TAP beats the static rule
    predicate: higher
    arguments: {task: cls, metric: top1, a: tap, b: static, reported: text/gain-over-static/cls}
  - says: by the printed points
    predicate: value
    arguments: {task: cls, metric: top1, a: tap, b: static, reported: text/gain-over-static/cls, tolerance: 0.3}
    scales: [paper]
"""


def write(folder: Path, text: str = GOOD, name: str = "sample") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_the_seven_rows_of_the_claim_map_come_first_in_their_order() -> None:
    claims = load_claims()
    rows = [row.key for row in load_reported("tab:claim-map").rows]
    assert [claim.id for claim in claims[:7]] == rows
    assert {claim.id for claim in claims if claim.source == "claim-map"} == set(rows)
    assert {claim.source for claim in claims} == {"claim-map", "abstract", "text"}
    assert len(claims) > 30


def test_every_claim_names_evidence_that_exists() -> None:
    for claim in load_claims():
        assert claim.evidence.tables or claim.evidence.figures
        assert all((ROOT / test).is_file() for test in claim.evidence.tests)
    assert len(list(FOLDER.glob("*.yaml"))) == len(load_claims())


# Settings, definitions and sums: nothing to measure. Tables of settings show some of them, and `tap paper check`
# recomputes what follows from others.
NOT_MEASURED = {"seeds", "probe-rate", "temperature", "bisection", "joint-training", "joint-optimizer", "profiling"}
NOT_MEASURED |= {"memory-protocol", "oracle-grid", "small-object", "latency-total"}
NOT_MEASURED |= {"lora-size", "lora-rank", "lora-block", "lora-total", "classification-only"}


def test_every_number_of_the_text_that_can_be_measured_is_judged() -> None:
    """By a predicate that compares with it, not only in the words of one that judges an order."""
    comparing = {
        "value",
        "speed",
        "controller_share",
        "speed_gain",
        "deviation_at_most",
        "rankings_oppose",
        "between",
        "loses_at_most",
    }
    parts = [part for claim in load_claims() for part in claim.parts if part.predicate in comparing]
    judged = {
        text
        for part in parts
        for name, text in part.arguments.items()
        if name in ("reported", "least", "most", "points", "low", "high")
        and not (part.predicate == "loses_at_most" and name == "reported")
    }
    printed = {f"text/{name}/{part}" for name, item in load_statements().items() for part in item.numbers}
    assert printed - judged == {name for name in printed if name.split("/")[1] in NOT_MEASURED}


@pytest.mark.slow
def test_every_claim_can_be_asked_where_nothing_is_measured(settings: Path) -> None:
    for claim in load_claims():
        judgement = claim.judge(Evidence("desk", settings))
        assert judgement.verdict == Verdict.NOT_MEASURED
        assert all(outcome.missing for outcome in judgement.outcomes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("predicate: higher", "predicate: highest", "'highest' is not one of higher"),
        ("b: static, reported: text/gain-over-static/cls}\n", "}\n", "missing a required argument: 'b'"),
        ("a: tap, b: static, r", "a: tap, b: static, colour: red, r", "unexpected keyword argument 'colour'"),
        ("text/gain-over-static/cls}", "text/gain-over-static/all}", "is no printed number"),
        ("tolerance: 0.3}", "tolerance: text/nothing/points}", "is no printed number"),
        ('"tab:cls"', '"tab:clz"', "'tab:clz' is not a table"),
        ("scales: [paper]", "scales: [smoke]", "desk"),
        ("id: sample", "id: other", "call the file other.yaml"),
        ("source: text", "source: [", "no valid YAML"),
        ("where: Somewhere\n", "", "where: Field required"),
    ],
)
def test_a_wrong_claim_is_refused_by_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_claim(write(tmp_path, GOOD.replace(old, new, 1)))
    assert message in str(caught.value)
    assert "sample.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (["supported", "supported"], "supported"),
        (["supported", "contradicted"], "inconclusive"),
        (["inconclusive", "contradicted"], "inconclusive"),
        (["not measured", "contradicted"], "contradicted"),
        (["not comparable", "contradicted"], "contradicted"),
        (["contradicted", "contradicted"], "contradicted"),
        (["supported", "not measured"], "inconclusive"),
        (["supported", "inconclusive"], "inconclusive"),
        (["not measured", "not measured"], "not measured"),
        ([], "not measured"),
    ],
)
def test_parts_make_a_verdict(verdicts: list[str], whole: str) -> None:
    assert combine([Verdict(item) for item in verdicts]) == whole


def test_a_part_that_the_claim_needs_takes_it_along() -> None:
    verdicts = [Verdict.SUPPORTED, Verdict.CONTRADICTED]
    assert combine(verdicts, [False, True]) == Verdict.CONTRADICTED
    assert combine(verdicts, [True, False]) == Verdict.INCONCLUSIVE
