"""Throughput beside the dense encoder, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from tiny_models import common_recovery, tiny_encoder, tiny_images

from tap.profiling import throughput
from tap.profiling.throughput import alternate, dense_twin, kernel_of, precision, profile_encoder
from tap.reducers.dense import Dense

CPU = torch.device("cpu")


class Clock:
    """Stands in for `time`; `spend` is the work that takes time."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


def test_sides_take_turns_and_warm_up_is_not_measured(clock):
    calls: list[str] = []

    def side(name: str, seconds: Iterator[float]):
        def call() -> None:
            calls.append(name)
            clock.spend(next(seconds))

        return call

    reference = side("reference", iter([1000.0, 1000.0, 3.0, 6.0, 30.0]))
    subject = side("subject", iter([500.0, 500.0, 1.0, 4.0, 10.0]))
    timing = alternate(reference, subject, CPU, warmup=2, iterations=3)
    assert calls == ["reference", "subject"] * 5
    assert (timing.reference, timing.subject) == (6.0, 4.0)
    assert timing.ratio == 3.0, "the median of 3, 1.5 and 3, not the ratio of the medians"


def test_a_slow_moment_meets_both_sides(clock):
    """The machine halves its speed half way: the ratio of the pairs does not move."""
    started = clock.now

    def side(seconds: float):
        return lambda: clock.spend(seconds * (2 if clock.now - started > 50 else 1))

    timing = alternate(side(2.0), side(1.0), CPU, warmup=1, iterations=40)
    assert timing.ratio == pytest.approx(2.0)


def test_a_faster_subject_is_above_1(clock):
    timing = alternate(lambda: clock.spend(1.0), lambda: clock.spend(4.0), CPU, warmup=1, iterations=2)
    assert timing.ratio == 0.25


def test_the_clock_is_read_around_synchronised_calls(monkeypatch, clock):
    """A GPU is waited for before and after every measured call, as the paper's protocol says."""
    events: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append("wait"))

    def side(name: str):
        def call() -> None:
            events.append(name)
            clock.spend(1.0)

        return call

    alternate(side("r"), side("s"), torch.device("cuda"), warmup=1, iterations=1)
    assert events == ["r", "s", "wait", "r", "wait", "wait", "s", "wait"]


@pytest.mark.parametrize("method", ["tap", "random"])
def test_the_dense_twin_is_the_same_backbone_without_pruning(method):
    encoder = tiny_encoder(method, 0.4, (1, 3), (2, 4), common_recovery(method))
    twin = dense_twin(encoder)
    assert twin.vit is encoder.vit
    assert isinstance(twin.reducer, Dense)
    assert twin.read_blocks == encoder.read_blocks
    images = tiny_images(encoder, 2)
    with torch.no_grad():
        states = encoder.vit.forward_features(images)
        output = twin.eval()(images)
        assert torch.equal(encoder.vit.norm(output.tokens.rectangle), states)
        assert encoder(images, return_trace=True).trace.final_counts.tolist() == [6, 6], "the method is left as it was"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_profile_of_an_encoder(monkeypatch, clock, dtype):
    """Four images in 0.5 s dense and in 0.2 s pruned."""
    encoder = tiny_encoder("tap", 0.4)
    seen: list[tuple[str, torch.dtype, bool]] = []
    forward = type(encoder).forward

    def timed(self, images, sample_ids=None, return_trace=False):
        output = forward(self, images, sample_ids, return_trace)
        clock.spend(0.5 if self.reducer.name == "dense" else 0.2)
        seen.append((self.reducer.name, output.tokens.layout.rows, torch.is_inference_mode_enabled()))
        return output

    monkeypatch.setattr(type(encoder), "forward", timed)
    images = tiny_images(encoder, 4)
    with precision(CPU, dtype):
        assert encoder.vit.blocks[0].mlp.fc1(torch.ones(1, 16)).dtype == (
            torch.bfloat16 if dtype == "bf16" else torch.float32
        )
    found = profile_encoder(encoder, images, torch.arange(4), warmup=1, iterations=3, dtype=dtype)
    assert seen == [("dense", 4 * 17, True), ("tap", 4 * 8, True)] * 4
    assert found["encoder_images_per_second"] == pytest.approx(20)
    assert found["encoder_dense_images_per_second"] == pytest.approx(8)
    assert found["encoder_speedup"] == pytest.approx(2.5)
    assert (found["dtype"], found["batch_size"], found["threads"]) == (dtype, 4, torch.get_num_threads())
    assert found["kernel"] == "sdpa (one call per sequence length)"


@pytest.mark.parametrize(("options", "sdpa"), [({}, True), ({"window": 3, "global_blocks": (2,)}, False)])
def test_the_kernel_that_is_named_is_the_one_that_runs(monkeypatch, options, sdpa):
    encoder = tiny_encoder("tap", 0.4, (2,), class_token=not options, **options)
    calls, kernel = [], torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: (calls.append(1), kernel(*a, **k))[1]
    )
    with torch.no_grad():
        encoder(tiny_images(encoder, 2))
    assert bool(calls) == sdpa == ("sdpa" in kernel_of(encoder, CPU, "fp32"))
