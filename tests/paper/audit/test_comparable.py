"""Which measurements test a claim at all: enough updates for one on training, and the tokens of its budget."""

from __future__ import annotations

import pytest

from tap.paper.audit.claim import Part
from tap.paper.audit.comparable import LEAST_UPDATES, TOKENS_OFF, off_budget, too_short
from tap.paper.audit.outcome import Verdict
from tap.paper.evidence import Evidence

PAPERS = 124_625
"""Updates of a fine-tuning on ImageNet: a hundred epochs of 1,281,167 less the calibration images, 1,024 at a time."""
LEAST = 12_463
"""Ten percent of them, rounded up."""
RUN = "cls/tap/r0.50/main/s0"


def part(training: bool) -> Part:
    arguments = {"task": "cls", "metric": "top1", "a": "tap", "b": "static"}
    return Part(says="TAP beats the static rule", predicate="higher", arguments=arguments, training=training)


@pytest.fixture
def measured(results):
    """Three seeds of two methods at desk scale, TAP-J ahead, with given updates and numbers of kept patches."""

    def make(updates: int | None = None, kept: float = 32.0) -> Evidence:
        if updates is not None:
            lines = f"tasks.cls.method.unit: steps\n    tasks.cls.method.length: {updates}"
            (results.root / "params.yaml").write_text(f"scale: desk\noverrides:\n  desk:\n    {lines}\n")
        runs = [results.run("static", 0.6, seed=seed) for seed in range(3)]
        runs += [results.run("tap", 0.9, seed=seed, final_tokens_mean=kept) for seed in range(3)]
        results.gather(*runs)
        return Evidence("desk", results.root)

    return make


def test_the_shares_are_those_that_are_stated():
    assert (LEAST_UPDATES, TOKENS_OFF) == (0.1, 0.02)
    assert LEAST == -(-PAPERS // 10)


def test_fewer_updates_than_a_tenth_of_the_papers_test_no_claim_on_training(measured):
    evidence = measured(updates=LEAST - 1)
    words = f"tap on cls had {LEAST - 1:,} updates, less than 10% of the paper's {PAPERS:,}."
    assert too_short(evidence, RUN) == words
    outcome = part(training=True).judge(evidence)
    assert outcome.verdict == Verdict.NOT_COMPARABLE
    assert words in outcome.reason
    assert outcome.p is None
    assert part(training=False).judge(evidence).verdict == Verdict.SUPPORTED, "a claim on scores is another matter"


def test_a_tenth_of_them_is_enough(measured):
    evidence = measured(updates=LEAST)
    assert too_short(evidence, RUN) == ""
    assert part(training=True).judge(evidence).verdict == Verdict.SUPPORTED


def test_runs_that_no_settings_know_and_probes_are_not_asked(measured):
    evidence = measured()
    assert too_short(evidence, "probes/seg/layers") == ""
    assert too_short(evidence, "cls/algm/r0.50/main/s0") == ""


@pytest.mark.parametrize(("kept", "off"), [(32.6, False), (31.4, False), (32.7, True), (31.3, True)])
def test_scores_of_another_number_of_tokens_are_not_those_of_the_budget(kept, off, measured):
    """K is 32 of 64 patches, and 2 % of it 0.64."""
    evidence = measured(kept=kept)
    outcome = part(training=False).judge(evidence)
    assert (outcome.verdict == Verdict.NOT_COMPARABLE) == off
    assert bool(off_budget(evidence, RUN)) == off
    if off:
        assert f"{RUN} leaves {kept:.1f} patches for 32, more than 2% off." in outcome.reason
    else:
        assert outcome.verdict == Verdict.SUPPORTED


def test_no_pruning_and_unknown_counts_are_off_no_budget(results):
    runs = [results.run("dense"), results.run("tap", patches=None, final_tokens_mean=None)]
    results.gather(*runs)
    evidence = Evidence("desk", results.root)
    assert [off_budget(evidence, run.id) for run in runs] == ["", ""]
