"""The one formula of operations beside torch's counter: every method, every task that it has, ragged counts too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import common_recovery, tiny_encoder, tiny_images

from tap.config.methods import METHODS
from tap.encoder.low_rank import add_low_rank
from tap.plan.profiles import PRINTED_SPLITS
from tap.profiling.flops import of_encoder
from tap.profiling.method_flops import from_counts
from tap.profiling.subjects import follow

SHAPES: dict[str, dict[str, Any]] = {
    "cls": {},
    "seg": {"reads": (2, 4)},
    "det": {"reads": (4,), "window": 4, "global_blocks": (2, 3)},
}
CASES = [
    (name, task)
    for name, facts in METHODS.items()
    for task in SHAPES
    if facts.row.tasks == "all" or task in facts.row.tasks
]


def encoder_of(name: str, task: str) -> Any:
    options = SHAPES[task]
    settings = {"task": task} if name.startswith("tap") else {}
    deep = {"depth": 6} if name in ("ats", "algm") else {}  # whose first blocks are further in
    encoder = tiny_encoder(
        name, recovery=common_recovery(name), settings=settings, grid=(10, 10), width=64, **options, **deep
    )
    if name.startswith("tap"):
        follow(encoder.reducer, PRINTED_SPLITS["seg"][1:])
    if name == "tap_f":
        add_low_rank(encoder.vit, 8, 8.0)
    if encoder.reducer.method.calibrated:
        encoder.reducer.threshold.fill_({"ats": 0.7, "algm": 0.1, "dtop": 0.3, "svit": 0.5}[name])
    return encoder


def test_a_method_that_declares_no_cost_has_no_formula(monkeypatch):
    encoder = encoder_of("random", "cls")
    _, trace = of_encoder(encoder, tiny_images(encoder, 1), torch.arange(1))
    monkeypatch.delattr("tap.reducers.random.COST")
    with pytest.raises(ValueError, match="random"):
        from_counts(encoder, trace)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_the_formula_is_what_torch_counts(name, task):
    encoder = encoder_of(name, task)
    images = tiny_images(encoder.requires_grad_(False), 3)
    seen, trace = of_encoder(encoder, images, torch.arange(3))
    assert from_counts(encoder, trace) == pytest.approx(seen, rel=0.01)
    if name != "dense":
        assert (trace.removals.sum(dim=1) > 0).all()
