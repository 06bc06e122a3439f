"""A checkpoint with a register that was never trained, evaluated as jobs do: no claim about registers is supported."""

import json

import numpy as np
import pytest
import torch
from paper.conftest import Results, with_settings

from tap.paper.audit.claim import load_claims
from tap.paper.audit.outcome import Verdict
from tap.paper.audit.predicates import OF_LEARNING
from tap.paper.evidence import Evidence
from tap.studies.evaluation import facts_of_model
from tap.studies.register_diagnostics import own_register, register_metrics
from tap.tasks.registry import get_task

OTHERS = ("dense", "random", "attn_topk", "static", "cropr", "tome", "diffrate")
VARIANTS = ("static_query", "shared_register", "shared_allocation", "uniform_allocation", "fixed_tau", "hard_only")
NEVER = (Verdict.SUPPORTED, Verdict.INCONCLUSIVE)


@pytest.fixture
def untrained(cls_spec, tmp_path):
    """Desk results in which TAP is such a checkpoint, beside methods that are right on every other of its images."""
    spec = cls_spec().model_copy(update={"method": "tap", "rate": 0.5})
    task = get_task(spec)
    model = task.build_model(spec).eval()
    start = own_register(model, "cls")
    evaluation = task.evaluate(model, spec, "validation", torch.device("cpu"))
    metrics = evaluation.metrics | register_metrics(task, model, spec, torch.device("cpu"), start, {})
    metrics |= facts_of_model(spec, model) | {"device": "a machine"}
    results, runs = Results(with_settings(tmp_path)), []
    right = evaluation.per_sample["correct"].copy()
    fewer = right & (np.cumsum(right) % 2 == 0)
    for seed in (0, 1, 2):
        for method, variant in [(name, "main") for name in ("tap", "tap_f", *OTHERS)] + [
            ("tap_f", v) for v in VARIANTS
        ]:
            run = results.run(method, seed=seed, variant=variant)
            own = method.startswith("tap") and variant == "main"
            arrays = dict(evaluation.per_sample) if own else {**evaluation.per_sample, "correct": fewer}
            values = metrics if own else {"top1": 100 * float(fewer.mean()), "device": "a machine"}
            (results.root / run.folder / "metrics.json").write_text(json.dumps(values))
            np.savez(results.root / run.folder / "per_sample.npz", **arrays)
            runs.append(run)
    results.gather(*runs)
    return Evidence("desk", results.root)


@pytest.mark.slow
def test_no_claim_about_a_register_is_supported_by_one_that_was_never_trained(untrained):
    known = untrained.measured("cls").of_run("cls/tap/r0.50/main/s0")
    assert known["register_distance"] == 0.0
    found = {}
    for claim in load_claims():
        for part, outcome in zip(claim.parts, claim.judge(untrained).outcomes, strict=True):
            if part.predicate in OF_LEARNING and "desk" in part.scales and any("/tap" in run for run in outcome.runs):
                found[claim.id, part.says] = outcome
    assert {name for name, _ in found} >= {"gain-over-static", "estimator", "static-query", "abstract-cls"}
    assert {outcome.verdict for outcome in found.values()} == {Verdict.NOT_COMPARABLE}
    assert all("has not moved from its start" in outcome.reason for outcome in found.values())
    verdicts = {claim.id: claim.judge(untrained).verdict for claim in load_claims()}
    assert all(verdicts[name] not in NEVER for name, _ in found)
