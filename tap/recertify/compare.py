"""Two traces of one replay, bit by bit: equal, or the first place and tensor that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Entry = Sequence[str]
"""Place, name and hash, as the driver writes them."""


LOG: Final = ("log ", "log.")
"""How names of values begin that the log shows."""


@dataclass(frozen=True)
class Comparison:
    """What came of a replay by two trees.

    Attributes:
        difference: the first one, in words; empty if every bit is the same.
        compared: values that were compared.
        steps: training steps among them.
    """

    difference: str
    compared: int = 0
    steps: int = 0

    @property
    def equal(self) -> bool:
        """Whether every bit is the same."""
        return not self.difference


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compares the driver's answers.

    Args:
        before: with the code that made the result.
        now: with today's.
    """
    for answer, whose in ((before, "the code that made it"), (now, "today's code")):
        if "missing" in answer:
            return Comparison(f"{whose} lacks an interface that a replay needs: {answer['missing']}")
        if "error" in answer:
            return Comparison(f"{whose} fails in the replay: {answer['error']}")
    old, new = _without_own_log(before["trace"], now["trace"]), _without_own_log(now["trace"], before["trace"])
    steps = {place for place, _, _ in old if place.startswith("step ")}
    for first, second in zip(old, new, strict=False):
        if list(first) != list(second):
            return Comparison(_difference(first, second), len(old), len(steps))
    if len(old) != len(new):
        place, name, _ = (old if len(old) > len(new) else new)[min(len(old), len(new))]
        return Comparison(f"{place}: {name}: only one of both has it", len(old), len(steps))
    if not old:
        return Comparison("nothing was computed")
    return Comparison("", len(old), len(steps))


def _without_own_log(trace: Sequence[Entry], other: Sequence[Entry]) -> list[Entry]:
    """A trace without the values of the log that the other one lacks: to show more, or less, decides nothing."""
    known = {(place, name) for place, name, _ in other}
    return [entry for entry in trace if not entry[1].startswith(LOG) or tuple(entry[:2]) in known]


def _difference(first: Entry, second: Entry) -> str:
    if first[:2] == second[:2]:
        return f"{first[0]}: {first[1]}"
    return f"{first[0]}: {first[1]} before, {second[0]}: {second[1]} now"
