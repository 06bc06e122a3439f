"""What the runs of a task measured: means over seeds, differences, and their bootstrap intervals.

A *selector* names runs: ``method``, ``method@rate`` or ``method:variant@rate``. Without a rate it is the main rate (1
for no pruning), without a variant ``main``. Ablations are variants of the method that they ablate, called by the row
keys of the paper's tables: ``tap_f:static_query``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from tap.config.methods import DENSE, MAIN, METHODS, RANDOM_ENCODER
from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.estimate import Estimate, Precision
from tap.paper.scores import read_arrays
from tap.paper.statistics import DRAWS, Array, Interval, Statistic, contributions, point, replicates, sample_sd
from tap.paper.tidy import PRIMARY_METRIC
from tap.seeds import derive_seed
from tap.task_facts import TASKS

FLOORS = {
    "floor_constant": "the most frequent class everywhere",
    "floor_random_encoder": "a trained head on a frozen random encoder",
}
"""What a dense task reaches without a trained encoder, in words by key."""

_SELECTOR = re.compile(r"(?P<method>[a-z0-9_]+)(?::(?P<variant>[a-z0-9_-]+))?(?:@(?P<rate>[01]?\.\d+|1))?")


class Key(NamedTuple):
    """What the seeds of one cell have in common."""

    method: str
    variant: str
    rate: float


@dataclass(frozen=True)
class Value:
    """A mean over seeds.

    Attributes:
        mean: the value.
        sd: sample standard deviation over seeds; None for one seed.
        seeds: seeds behind it.
        runs: ids of the runs behind it.
        interval: bootstrap interval over units and seeds, for differences of metrics with per-image values.
        by_seed: the value of each seed, in the order of `seeds`; empty where there is none of its own.
        precision: what is known of the error, where there is an interval of an estimate over seeds.
    """

    mean: float
    sd: float | None
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    interval: Interval | None = None
    by_seed: tuple[float, ...] = ()
    precision: Precision | None = None

    @staticmethod
    def of(by_seed: Mapping[int, float], runs: Iterable[str], estimate: Estimate | None = None) -> Value:
        """The mean of the values of seeds.

        Args:
            by_seed: the value of each seed.
            runs: ids of the runs behind them.
            estimate: of the same seeds, whose interval and precision the value gets; None for neither.
        """
        values = tuple(by_seed.values())
        found = Value(float(np.mean(values)), sample_sd(values), tuple(by_seed), tuple(runs), by_seed=values)
        return found if estimate is None else replace(found, interval=estimate.interval, precision=estimate.precision)


@dataclass
class Measured:
    """The runs of a scale and task.

    Attributes:
        frame: the tidy table of the task.
        rate: the main keep rate: of selectors that name none.
        root: the project's folder, where the tidy table's file names start.
        draws: bootstrap resamples.
        compare: refuse a score that its per-image values do not give, before an interval of theirs stands beside it.
    """

    frame: pd.DataFrame
    rate: float
    root: Path = Path(".")
    draws: int = DRAWS
    compare: bool = True
    _replicates: dict[tuple[str, str], tuple[Array, int]] = field(default_factory=dict, repr=False)
    _images: tuple[str, np.ndarray] | None = field(default=None, repr=False)

    def key(self, selector: str) -> Key:
        """What a selector names, whether it was measured or not.

        Raises:
            UserError: the text is no selector.
        """
        match = _SELECTOR.fullmatch(selector)
        if match is None:
            raise UserError(f"selector '{selector}': write method, method@rate or method:variant@rate")
        default = 1.0 if match["method"] == DENSE else self.rate
        return Key(match["method"], match["variant"] or MAIN, float(match["rate"] or default))

    def selectors(self, method: str | None = None) -> list[str]:
        """Full selectors of everything that was measured, or of one method: all variants and rates, sorted."""
        keys = sorted({key for key, _ in self._index if method in (None, key.method)})
        return [f"{key.method}:{key.variant}@{key.rate:.2f}" for key in keys]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Rows of the tidy table that a main table shows: the main variant, at the main rate or without pruning."""
        frame = self.frame
        at_rate = (frame["rate"] == self.rate) | (frame["method"] == DENSE)
        return frame[at_rate & (frame["variant"] == MAIN)]

    @property
    def methods(self) -> list[str]:
        """Methods that a main table shows, in the order of the paper's rows; others behind them, by name."""
        there, known = set(self.runs["method"]), [*METHODS]
        return [*(name for name in known if name in there), *sorted(there.difference(known))]

    def floors(self) -> dict[str, Value]:
        """What a dense task reaches without a trained encoder, by the keys of `FLOORS`, as far as it was measured."""
        if self.frame.empty:
            return {}
        score = PRIMARY_METRIC[str(self.frame["task"].iloc[0])]
        found = {
            "floor_constant": self.value(DENSE, "constant_miou"),
            "floor_random_encoder": self.value(f"{DENSE}:{RANDOM_ENCODER}", score),
        }
        return {key: value for key, value in found.items() if value is not None}

    def above_floors(self, metric: str) -> bool | None:
        """Whether no pruning is better than every floor; None where either was not measured.

        It has to be above a trained head on a random encoder by an interval without zero, where single images are
        known.
        """
        dense, floors = self.value(DENSE, metric), self.floors()
        if dense is None or not floors:
            return None
        gain = TASKS[str(self.frame["task"].iloc[0])].metric(metric).gain
        lead = self.difference(DENSE, metric, f"{DENSE}:{RANDOM_ENCODER}")
        if lead is not None and lead.interval is not None and gain(lead.interval.sign, 0) <= 0:
            return False
        return all(gain(dense.mean, value.mean) > 0 for value in floors.values())

    @cached_property
    def _index(self) -> dict[tuple[Key, str], dict[int, tuple[float, str]]]:
        """Value and run of every key and metric by seed, in ascending order of seeds."""
        index: dict[tuple[Key, str], dict[int, tuple[float, str]]] = {}
        for row in self.frame.sort_values("seed").itertuples():
            key = Key(str(row.method), str(row.variant), float(row.rate))  # type: ignore[arg-type]
            index.setdefault((key, str(row.metric)), {})[int(row.seed)] = (float(row.value), str(row.run))  # type: ignore[arg-type]
        return index

    @cached_property
    def _per_sample(self) -> dict[str, str]:
        """File with the per-image values of every run, empty where there is none."""
        return dict(zip(self.frame["run"], self.frame["per_sample"], strict=True))

    def has(self, selector: str) -> bool:
        """Whether any run that is selected is there."""
        return any(key == self.key(selector) for key, _ in self._index)

    def of_run(self, run: str) -> dict[str, float]:
        """All metrics of one run by name; empty if it is not there."""
        return dict(self._by_run.get(run, ()))

    @cached_property
    def _by_run(self) -> dict[str, list[tuple[str, float]]]:
        found: dict[str, list[tuple[str, float]]] = {}
        for run, metric, value in zip(self.frame["run"], self.frame["metric"], self.frame["value"], strict=True):
            found.setdefault(run, []).append((metric, float(value)))
        return found

    def per_seed(self, selector: str, metric: str) -> dict[str, float]:
        """A metric of every selected run, by run id."""
        return {run: value for value, run in self._found(selector, metric).values()}

    def value(self, selector: str, metric: str) -> Value | None:
        """Mean of a metric over the seeds; None if it was not measured."""
        found = self._found(selector, metric)
        if not found:
            return None
        return Value.of({seed: value for seed, (value, _) in found.items()}, (run for _, run in found.values()))

    def difference(self, selector: str, metric: str, other: str = DENSE) -> Value | None:
        """Mean of (selected - other) over the seeds that both have, with a paired interval where images are known.

        Returns:
            None if the two have no seed in common.

        Raises:
            UserError: the runs were evaluated on different images.
        """
        ours, theirs = (self._found(name, metric) for name in (selector, other))
        seeds = [seed for seed in ours if seed in theirs]
        if not seeds:
            return None
        pairs = [(ours[seed], theirs[seed]) for seed in seeds]
        first, second = (self._estimate([pair[side] for pair in pairs], metric) for side in (0, 1))
        differences = {seed: one[0] - other[0] for seed, (one, other) in zip(seeds, pairs, strict=True)}
        runs = (run for pair in pairs for _, run in pair)
        return Value.of(differences, runs, first - second)

    def estimate(self, selector: str, metric: str) -> Estimate | None:
        """The metric of every seed with its resamples; None if it was not measured."""
        found = self._found(selector, metric)
        return self._estimate(list(found.values()), metric) if found else None

    def facts(self, column: str) -> list[str]:
        """Distinct non-empty entries of a column of the rows that a main table shows, in order of first appearance."""
        return _distinct(self.runs[column])

    def facts_of(self, runs: tuple[str, ...], column: str) -> list[str]:
        """Distinct non-empty entries of a column for some runs."""
        return _distinct(self.frame.loc[self.frame["run"].isin(runs), column])

    def _found(self, selector: str, metric: str) -> dict[int, tuple[float, str]]:
        return self._index.get((self.key(selector), metric), {})

    def _estimate(self, found: list[tuple[float, str]], metric: str) -> Estimate:
        """Values of some runs, one for each seed, with their resamples where single images are known."""
        by_seed, parts = np.array([value for value, _ in found]), [self._resample(run, metric) for _, run in found]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return Estimate(by_seed, None)
        return Estimate(by_seed, np.stack([drawn for drawn, _ in known]), known[0][1], str(self.frame["task"].iloc[0]))

    def _resample(self, run: str, metric: str) -> tuple[Array, int] | None:
        """Replicates of one run and how many units it has; the same resamples for all runs, which share the images."""
        key = (run, metric)
        if key not in self._replicates:
            loaded = self._load(run, metric)
            if loaded is None:
                return None
            first = self.frame.iloc[0]
            seed = derive_seed("bootstrap", str(first["scale"]), str(first["task"]))
            self._replicates[key] = replicates(*loaded, seed=seed, draws=self.draws), len(loaded[0])
        return self._replicates[key]

    def _load(self, run: str, metric: str) -> tuple[Array, Statistic] | None:
        path = self._per_sample[run]
        if not path:
            return None
        arrays = read_arrays(self.root / path)
        found = contributions(metric, arrays)
        if found is None:
            return None
        self._check_images(run, path, arrays)
        rows, given = self.frame, point(*found)
        stated = float(rows[(rows["run"] == run) & (rows["metric"] == metric)]["value"].iloc[0])
        if self.compare and not same(stated, given):
            raise UserError(f"{Difference(f'tidy table, {run}', metric, stated, given)} from {path}; gather again")
        return found

    def _check_images(self, run: str, path: str, arrays: dict[str, np.ndarray]) -> None:
        if "sample_id" not in arrays:
            raise UserError(f"{path}: has no 'sample_id', so its images cannot be paired; evaluate {run} again")
        first, ids = self._images = self._images or (run, arrays["sample_id"])
        if not np.array_equal(arrays["sample_id"], ids):
            raise UserError(f"{path}: holds other images than {first}; evaluate both on the same split")


def _distinct(entries: pd.Series) -> list[str]:
    return [str(item) for item in entries.dropna().unique() if str(item)]
