"""What a workflow shows of its jobs while it runs: a line each, why it runs in a few words, and the time that is left.

Snakemake's own log file keeps everything: all files, all reasons, all parameters.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tap.config.methods import DENSE, PRETRAINING

_OWN: Final = "DefaultStreamHandler"
"""Name of Snakemake's own handler for the terminal; where somebody has chosen another one, that stays."""

_REASONS: Final = (
    ("Forced execution", "asked for"),
    ("Missing output files", "its files are missing"),
    ("Incomplete output files", "it was interrupted"),
    ("Updated input files", "its inputs are newer"),
    ("Params have changed", "its settings or code changed"),
    ("Set of input files has changed", "it reads other files than before"),
    ("Code has changed", "its rule changed"),
    ("Input files updated by another job", "what it reads is made anew"),
)
"""Beginnings of Snakemake's reasons in the order in which one is told, and what is said."""

_UNTOLD: Final = ("Select jobs to execute", "Execute ")
_BY_METHOD: Final = {PRETRAINING: "pretrain", DENSE: "train_dense"}
_RULES: Final = {"figure": "figures_of_probes", "prepare": "prepare_data", "check": "check_data"}
"""Rules that are called otherwise than the jobs of their records."""


def in_few_words(reason: str) -> str:
    """Why a job runs, in at most ten words; with several reasons the one that a person would act upon."""
    return next((words for start, words in _REASONS if start in reason), "it has to")


def earlier_seconds(results: Path) -> dict[str, float]:
    """Mean seconds of the jobs of each rule, by the records in a folder of results."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for path in results.glob("**/*.json"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            job, took = str(content["job"]), float(content["wall_seconds"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # no record, or one that is being replaced: it tells no time, and is not here to be judged
        seconds[_rule_of(job, path.relative_to(results))].append(took)
    return {rule: sum(values) / len(values) for rule, values in seconds.items()}


def _rule_of(job: str, record: Path) -> str:
    """The rule whose jobs write a record."""
    if job != "train":
        return _RULES.get(job, job)
    return _BY_METHOD.get(record.parts[2], "train_method") if len(record.parts) > 2 else "train_method"


class TimeLeft:
    """An estimate of the time that a workflow still takes.

    Every job counts for what those of its rule took: in earlier runs by their records, else in this one, else as the
    median of all rules. How many run at once shows in how fast that work shrinks.

    Args:
        earlier: seconds by rule.
        at_once: jobs that run side by side, until this run has shown it.
        clock: seconds that only grow.
    """

    def __init__(self, earlier: Mapping[str, float], at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._earlier, self._at_once, self._clock = dict(earlier), max(1, at_once), clock
        self._left: Counter[str] = Counter()
        self._begun = clock()
        self._running: dict[int, tuple[str, float]] = {}
        self._seen: dict[str, list[float]] = defaultdict(list)

    def plan(self, jobs: Mapping[str, int]) -> None:
        """Takes the number of jobs of each rule."""
        self._left, self._begun = (
            Counter({rule: count for rule, count in jobs.items() if rule != "total"}),
            self._clock(),
        )

    def start(self, number: int, rule: str) -> None:
        """A job has begun."""
        self._running[number] = (rule, self._clock())

    def end(self, number: int) -> None:
        """A job has ended."""
        rule, begun = self._running.pop(number, ("", 0.0))
        if rule:
            self._left[rule] -= 1
            self._seen[rule].append(self._clock() - begun)

    def seconds(self) -> float | None:
        """What is left; None where nothing tells."""
        typical = {**{rule: sum(values) / len(values) for rule, values in self._seen.items()}, **self._earlier}
        if not typical:
            return None
        other = statistics.median(typical.values())  # one search of hours says nothing of a table
        work = sum(count * typical.get(rule, other) for rule, count in self._left.items() if count > 0)
        done = sum(len(values) * typical.get(rule, other) for rule, values in self._seen.items())
        passed = self._clock() - self._begun
        # The first few jobs say little about how many run at once.
        pace = done / passed if passed > 0 and done > work / 20 and sum(map(len, self._seen.values())) > 4 else None
        return work / (pace or self._at_once)


def in_words(seconds: float | None) -> str:
    """A duration as the end of a line; empty where it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f", about {max(1, round(seconds))} s left"
    if seconds < 5400:
        return f", about {round(seconds / 60)} min left"
    return f", about {seconds / 3600:.1f} h left"


class OneLine(logging.Formatter):
    """A line for each job and each step of progress; everything else as Snakemake says it.

    Args:
        other: formats the rest.
        left: the estimate.
    """

    def __init__(self, other: logging.Formatter, left: TimeLeft) -> None:
        super().__init__()
        self._other, self._left = other, left

    def format(self, record: logging.LogRecord) -> str:
        """The line, or nothing."""
        told: Any = record
        event = str(getattr(record, "event", ""))
        if event == "run_info":
            self._left.plan(told.stats)
            return f"{self._other.format(record)}\n{told.stats['total']} to do{in_words(self._left.seconds())}"
        if event == "job_info":
            self._left.start(told.jobid, told.rule_name)
            name = told.rule_msg or f"{told.rule_name} {' '.join(map(str, told.wildcards.values()))}".strip()
            return f"[{time.strftime('%H:%M:%S')}] {name}: {in_few_words(told.reason)}"
        if event == "job_finished":
            self._left.end(told.job_id)
            return ""
        if event == "progress":
            return f"{told.done} of {told.total} done{in_words(self._left.seconds())}"
        return "" if record.getMessage().startswith(_UNTOLD) else self._other.format(record)


class Terminal(logging.StreamHandler):
    """Writes what is not empty."""

    def emit(self, record: logging.LogRecord) -> None:
        """A message as its formatter says it."""
        try:
            text = self.format(record)
            if text and text != "None":
                self.stream.write(f"{text}\n")
                self.flush()
        except BrokenPipeError:
            raise
        except Exception:  # what logging does with an error of its own: said on standard error, nothing stops
            self.handleError(record)


def show_in_lines(logger: logging.Logger, results: Sequence[Path], at_once: int) -> None:
    """Puts this module's lines in the place of Snakemake's own on the terminal; `--verbose` keeps those.

    Args:
        logger: Snakemake's.
        results: folders with results of the scale, whose records tell how long jobs take; later ones count first.
        at_once: cores.
    """
    own = next((handler for handler in logger.handlers if handler.name == _OWN), None)
    if not isinstance(own, logging.StreamHandler) or own.formatter is None or logger.isEnabledFor(logging.DEBUG):
        return
    terminal = Terminal(own.stream)
    terminal.filters, terminal.name = own.filters, own.name
    terminal.setLevel(own.level)
    earlier = {rule: seconds for folder in results for rule, seconds in earlier_seconds(folder).items()}
    terminal.setFormatter(OneLine(own.formatter, TimeLeft(earlier, at_once)))
    logger.removeHandler(own)
    logger.addHandler(terminal)
