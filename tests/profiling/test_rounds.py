"""Repeated rounds on a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tap.profiling import rounds, throughput
from tap.profiling.rounds import measure

CPU = torch.device("cpu")


class Clock:
    def __init__(self) -> None:
        self.now, self.factor, self.calls = 0.0, 1.0, []

    def work(self, name: str, seconds: float):
        def call() -> None:
            self.calls.append(name)
            self.now += seconds * self.factor

        return call


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def pairs(clock: Clock):
    return {name: (clock.work("dense", 2.0), clock.work(name, seconds)) for name, seconds in (("a", 1.0), ("b", 4.0))}


def test_rounds_change_the_order_and_give_an_interval(clock):
    found = measure(pairs(clock), CPU, warmup=1, iterations=6, rounds=3, repeats=2)
    order = [name for name in clock.calls if name != "dense"]
    assert order == [*"aaabbb", *"bbaa", *"bbaa"]
    speed = found.speeds["a"]
    assert (speed.ratio, speed.low, speed.high, speed.rounds) == (2.0, 2.0, 2.0, (2.0, 2.0, 2.0))
    assert found.speeds["b"].ratio == 0.5
    assert (found.taken, found.disturbed) == (3, False)


def test_an_interval_covers_what_rounds_differ_by(clock):
    speed = rounds._speed([throughput.Timing(1, 1, ratio) for ratio in (1.0, 1.2, 1.4, 1.2, 1.2)])
    assert speed.ratio == pytest.approx(1.2)
    assert speed.high - speed.ratio == pytest.approx(2.776 * 0.1414 / 5**0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("slow", "taken", "disturbed"), [({2}, 4, False), ({2, 4, 5}, 6, False), ({1, 3, 5, 6}, 6, True)]
)
def test_a_disturbed_round_is_replaced_and_what_stays_disturbed_says_so(monkeypatch, clock, slow, taken, disturbed):
    """Another load halves the speed in some of the rounds."""
    real, seen = rounds.alternate, []

    def alternating(*arguments):
        clock.factor = 2.0 if len(seen) // 2 + 1 in slow else 1.0
        seen.append(1)
        return real(*arguments)

    monkeypatch.setattr(rounds, "alternate", alternating)
    found = measure(pairs(clock), CPU, warmup=0, iterations=3, rounds=3, repeats=3)
    assert (found.taken, found.disturbed) == (taken, disturbed)
    assert found.spread == pytest.approx(1.0 if disturbed else 0.0)
    assert found.speeds["a"].rounds == (2.0, 2.0, 2.0)
