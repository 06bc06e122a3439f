"""Where the time of a pass of TAP goes (tab:latency-breakdown), taken from outside: the encoder holds no clocks.

The functions behind each component are wrapped while a pass is measured. A component has the time of its own functions
without that of others which they call: the sparse encoder is what the encoder needs beside all that is named.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from tap.encoder.recovery_buffer import RecoveryBuffer
from tap.encoder.tokens import Tokens

COMPONENTS: Final = ("register", "ranking", "matching", "packing", "encoder", "reconstruction", "head")
"""Rows of the table, by the keys of `tap/paper/reported/latency-breakdown.yaml`."""


class Stopwatch:
    """Time of nested named stretches, each without those inside it: CUDA events on a GPU, the wall clock on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stretches: list[tuple[str, Any, Any, int]] = []
        self._open: list[int] = []

    def _now(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @contextmanager
    def stretch(self, name: str) -> Iterator[None]:
        """Measures what happens inside."""
        mine = len(self._stretches)
        self._stretches.append((name, None, None, self._open[-1] if self._open else -1))
        self._open.append(mine)
        start = self._now()
        try:
            yield
        finally:
            self._stretches[mine] = (name, start, self._now(), self._stretches[mine][3])
            self._open.pop()

    def seconds(self) -> dict[str, float]:
        """Seconds by name since the last call."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        found: dict[str, float] = {}
        for name, start, end, around in self._stretches:
            spent = end - start if self.device.type != "cuda" else start.elapsed_time(end) / 1000
            found[name] = found.get(name, 0.0) + spent
            if around >= 0:
                outer = self._stretches[around][0]
                found[outer] = found.get(outer, 0.0) - spent
        self._stretches.clear()
        return found


def components(
    model: Any, run: Callable[[], object], device: torch.device, iterations: int
) -> tuple[dict[str, float], float]:
    """Median seconds per pass of each component, and of passes without instruments that are taken in turn with these.

    Args:
        model: TAP's whole model.
        run: one pass of it.
        device: where it computes.
        iterations: measured passes of each kind, after one that is not.
    """
    watch = Stopwatch(device)
    passes, plain = [], []
    for number in range(iterations + 1):
        with watch.stretch("plain"):
            run()
        seconds = watch.seconds()["plain"]
        with _wrapped(model, watch), watch.stretch("head"):
            run()
        if number:
            plain.append(seconds)
            passes.append(watch.seconds())
        else:
            watch.seconds()
    found = {name: statistics.median(found.get(name, 0.0) for found in passes) for name in COMPONENTS}
    return found, statistics.median(plain)


@contextmanager
def _wrapped(model: Any, watch: Stopwatch) -> Iterator[None]:
    encoder = model.encoder
    reducer = encoder.reducer
    wrapped: list[tuple[Any, str, str]] = [
        (encoder, "forward", "encoder"),
        (reducer, "scores", "register"),
        (reducer, "allocate", "register"),
        (reducer.controller, "recovery_scale", "register"),
        (reducer, "_choose", "ranking"),
        (RecoveryBuffer, "store", "matching"),
        (RecoveryBuffer, "reconstruct", "reconstruction"),
        (Tokens, "survivors", "packing"),
    ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in wrapped]
    for owner, name, component in wrapped:
        setattr(owner, name, _timed(getattr(owner, name), component, watch))
    try:
        yield
    finally:
        for owner, name, own in before:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


def _timed(function: Callable[..., Any], component: str, watch: Stopwatch) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        with watch.stretch(component):
            return function(*arguments, **named)

    return call
