"""How long planned jobs take from start to end, given how long each one runs."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from tap.plan.estimate import Kind, PlannedJob

_WAITED_FOR: Final[tuple[Kind, ...]] = ("train", "endpoint", "probe")
"""Kinds of jobs that others wait for, by their names."""


def critical_path(jobs: Sequence[PlannedJob], seconds: Mapping[tuple[str, str], float]) -> float:
    """Seconds of the longest chain of jobs that wait for one another."""
    waited_for = {job.name: job for job in jobs if job.kind in _WAITED_FOR}
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = until(waited_for[name])
        return ends[name]

    def until(job: PlannedJob) -> float:
        return seconds[job.kind, job.name] + max(map(end, job.after), default=0.0)

    return max((end(job.name) if job.kind in _WAITED_FOR else until(job) for job in jobs), default=0.0)


def wall_seconds(jobs: Sequence[PlannedJob], seconds: Mapping[tuple[str, str], float], cards: int) -> float:
    """Time from start to end on `cards` cards, where the longest job that fits on the free ones starts first.

    Args:
        jobs: what to run; none takes more cards than there are.
        seconds: of each job by kind and name.
        cards: cards, or places for jobs side by side.
    """
    waiting = sorted(jobs, key=lambda job: (-seconds[job.kind, job.name], job.kind, job.name))
    done: set[str] = set()
    running: list[tuple[float, str, str, int]] = []
    now, free = 0.0, cards
    while waiting or running:
        left = []
        for job in waiting:
            if job.processes <= free and done.issuperset(job.after):
                free -= job.processes
                heapq.heappush(running, (now + seconds[job.kind, job.name], job.kind, job.name, job.processes))
            else:
                left.append(job)
        waiting = left
        now, kind, name, taken = heapq.heappop(running)
        free += taken
        if kind in _WAITED_FOR:
            done.add(name)
    return now
