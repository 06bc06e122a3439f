"""Checkpoints with a register that was never trained: whatever they score, no claim about registers is supported."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from paper.conftest import Results, with_settings
from tasks.conftest import ade_root, coco_root, det_spec, seg_spec  # noqa: F401  fixtures

from tap.config.methods import DENSE, RANDOM_ENCODER, SCORES
from tap.paper.audit.claim import Judgement, load_claims
from tap.paper.audit.outcome import Outcome, Verdict
from tap.paper.audit.predicates import OF_LEARNING
from tap.paper.evidence import Evidence
from tap.paper.statistics import kept_replicates
from tap.studies.register_diagnostics import own_register, register_metrics
from tap.tasks.registry import get_task

OTHERS = ("random", "attn_topk", "static", "cropr", "tome")
VARIANTS = ("static_query", "shared_register", "attention_selection", "fixed_tau", "hard_only", "shared_shared")
CONTROLS = ("zero_fill", "alpha_0", "alpha_1", "oracle", "shared_allocation", "uniform_allocation", "both_means")
CONTROLS += ("mean_allocation", *(f"matching_{rule}_learned" for rule in ("spatial", "top_score", "random", "direct")))
OF_DENSE = {"gain-over-static", "three-decisions", "recovery-scale", "spatial-retention", "key-matching", "zero-fill"}
OF_CLS = {"gain-over-static", "estimator", "static-query", "abstract-cls"}
TOLD = {"cls": OF_CLS, "seg": OF_DENSE, "det": OF_DENSE}
"""Claims that must be among those that are looked at."""
RETAINED = {"boundary_retention", "class_coverage", "box_interior_retention", "small_object_coverage"}
OF_REGISTER = ("register_", "removal_share_", "recovery_scale_")
LEARNED = {"register_distance": 0.8, "register_fresh_correlation": 0.2, "register_start_correlation": 0.3}


@pytest.fixture
def of_register(request):
    """What an evaluation says of the register of an untrained model, and what it decides."""

    def measure(task: str) -> dict[str, float]:
        spec = request.getfixturevalue(f"{task}_spec")(
            model={"read_blocks": (3, 6, 9, 12), "head_channels": 8} if task == "seg" else None
        ).model_copy(update={"method": "tap", "rate": 0.5})
        pipeline = get_task(spec)
        model = pipeline.build_model(spec).eval()
        found = pipeline.evaluate(model, spec, "validation", torch.device("cpu")).metrics
        found |= register_metrics(pipeline, model, spec, torch.device("cpu"), own_register(model, task), {})
        return {name: value for name, value in found.items() if name.startswith(OF_REGISTER)}

    return measure


@pytest.fixture
def ahead(tmp_path):
    """Desk results of three seeds in which TAP is ahead of everything by its scores."""

    def make(task: str, register: dict[str, float]) -> Evidence:
        results, runs = Results(with_settings(tmp_path)), []
        for seed in (0, 1, 2):
            common = {"task": task, "seed": seed}
            runs.append(results.run(DENSE, 0.92, **common))
            runs.append(results.run(DENSE, 0.1, variant=RANDOM_ENCODER, **common))
            few = dict.fromkeys(RETAINED, 40.0)
            runs += [results.run(method, 0.6, **common, **few) for method in OTHERS]
            runs += [results.run("tap_f", 0.6, variant=variant, **common, **register) for variant in VARIANTS]
            own = [
                results.run(method, 0.9, **common, **dict.fromkeys(RETAINED, 80.0) | register)
                for method in ("tap", "tap_f")
            ]
            for run in own:
                controlled(results.root / run.folder, run, SCORES[task])
            runs += own
        results.gather(*runs)
        return Evidence("desk", results.root)

    return make


def controlled(folder, run, metrics) -> None:
    """Controls of a checkpoint that are all behind it."""
    about = {"run": run.id, "seed": run.seed, "schedule": "per image", "shares": json.dumps([0.3, 0.3, 0.4])}
    about |= {"passes": 4, "exact": 4, "digest": "a"}
    values = {"full": 90.0} | dict.fromkeys(CONTROLS, 60.0)
    lines = [
        {**about, "control": name, "metric": metric, "value": v} for name, v in values.items() for metric in metrics
    ]
    pd.DataFrame(lines).to_csv(folder / "controls.csv", index=False)
    np.savez(folder / "controls.npz", shares=np.full((4, 3), 1 / 3), scales=np.full((4, 3), 0.5))


def judged(evidence: Evidence, task: str) -> list[Judgement]:
    """All claims that have something to do with a task."""
    with kept_replicates():
        return [claim.judge(evidence) for claim in load_claims() if task in claim.tasks]


def about_registers(judgements: list[Judgement]) -> dict[tuple[str, str], Outcome]:
    """Outcomes of all parts of claims about what a register has learned, with a run of TAP behind them."""
    return {
        (judgement.claim.id, part.says): outcome
        for judgement in judgements
        for part, outcome in zip(judgement.claim.parts, judgement.outcomes, strict=True)
        if part.predicate in OF_LEARNING and "desk" in part.scales and any("/tap" in run for run in outcome.runs)
    }


@pytest.mark.slow
@pytest.mark.parametrize("task", ["cls", "seg", "det"])
def test_no_claim_about_a_register_is_supported_by_one_that_was_never_trained(task, of_register, ahead):
    register = of_register(task)
    assert register["register_distance"] == 0.0
    judgements = judged(ahead(task, register), task)
    found = about_registers(judgements)
    assert {name for name, _ in found} >= TOLD[task]
    assert {outcome.verdict for outcome in found.values()} == {Verdict.NOT_COMPARABLE}
    assert all("has not moved from its start" in outcome.reason for outcome in found.values())
    verdicts = {one.claim.id: one.verdict for one in judgements}
    assert not {verdicts[name] for name, _ in found} & {Verdict.SUPPORTED, Verdict.INCONCLUSIVE}


@pytest.mark.slow
def test_the_same_scores_support_claims_where_the_register_has_learned(ahead):
    """So it is the register that the verdicts above follow from."""
    found = about_registers(judged(ahead("seg", LEARNED), "seg"))
    supported = {name for (name, _), outcome in found.items() if outcome.verdict == Verdict.SUPPORTED}
    assert supported >= {"gain-over-static", "three-decisions"}
