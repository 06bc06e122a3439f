"""What the runs of one table measured: means over seeds, changes from no pruning, and their bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from tap.config.methods import DENSE, MAIN, RANDOM_ENCODER
from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.scores import read_arrays
from tap.paper.statistics import (
    DRAWS,
    Array,
    Interval,
    Statistic,
    contributions,
    interval,
    point,
    replicates,
    sample_sd,
)
from tap.paper.tidy import PRIMARY_METRIC
from tap.seeds import derive_seed
from tap.task_facts import TASKS


@dataclass(frozen=True)
class Value:
    """A mean over seeds.

    Attributes:
        mean: the value.
        sd: sample standard deviation over seeds; None for one seed.
        seeds: seeds behind it.
        runs: ids of the runs behind it.
        interval: paired bootstrap interval, for differences of metrics with per-image values.
    """

    mean: float
    sd: float | None
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    interval: Interval | None = None


@dataclass
class Measured:
    """The runs of a scale and task at one keep rate, with the no-pruning runs.

    Attributes:
        frame: the tidy table of the task.
        rate: keep rate of every method but no pruning.
        root: the project's folder, where the tidy table's file names start.
        draws: bootstrap resamples.
        compare: refuse a score that its per-image values do not give, before an interval of theirs stands beside it.
    """

    frame: pd.DataFrame
    rate: float
    root: Path = Path(".")
    draws: int = DRAWS
    compare: bool = True
    _replicates: dict[tuple[str, str], Array] = field(default_factory=dict, repr=False)
    _images: tuple[str, np.ndarray] | None = field(default=None, repr=False)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Rows of the tidy table that count here: the main variant, at this rate or without pruning."""
        frame = self.frame
        at_rate = (frame["rate"] == self.rate) | (frame["method"] == DENSE)
        return frame[at_rate & (frame["variant"] == MAIN)]

    def floors(self) -> dict[str, Value]:
        """What a dense task reaches without a trained encoder, in words: scores beside which others can be judged."""
        floors = {}
        constant = self.value(DENSE, "constant_miou")
        if constant is not None:
            floors["the most frequent class everywhere"] = constant
        frame = self.frame
        rows = frame[(frame["variant"] == RANDOM_ENCODER) & frame["metric"].isin(PRIMARY_METRIC.values())]
        if not rows.empty:
            values = [float(value) for value in rows["value"]]
            floors["a trained head on a frozen random encoder"] = Value(
                float(np.mean(values)), sample_sd(values), tuple(rows["seed"]), tuple(rows["run"])
            )
        return floors

    def above_floors(self, metric: str) -> bool | None:
        """Whether no pruning is better than every floor; None where either was not measured."""
        dense, floors = self.value(DENSE, metric), self.floors()
        if dense is None or not floors:
            return None
        gain = TASKS[str(self.frame["task"].iloc[0])].metric(metric).gain
        return all(gain(dense.mean, value.mean) > 0 for value in floors.values())

    @cached_property
    def _index(self) -> dict[tuple[str, str], dict[int, tuple[float, str]]]:
        """Value and run of every (method, metric) by seed, in ascending order of seeds."""
        index: dict[tuple[str, str], dict[int, tuple[float, str]]] = {}
        for row in self.runs.sort_values("seed").itertuples():
            index.setdefault((row.method, row.metric), {})[int(row.seed)] = (float(row.value), str(row.run))
        return index

    @cached_property
    def _per_sample(self) -> dict[str, str]:
        """File with the per-image values of every run, empty where there is none."""
        return dict(zip(self.runs["run"], self.runs["per_sample"], strict=True))

    def has(self, method: str) -> bool:
        """Whether any run of the method is there."""
        return any(name == method for name, _ in self._index)

    def value(self, method: str, metric: str) -> Value | None:
        """Mean of a metric over the method's seeds; None if it was not measured."""
        found = self._index.get((method, metric))
        if not found:
            return None
        values = [value for value, _ in found.values()]
        return Value(float(np.mean(values)), sample_sd(values), tuple(found), tuple(run for _, run in found.values()))

    def difference(self, method: str, metric: str, other: str = DENSE) -> Value | None:
        """Mean of (method - other) over the seeds that both have, with a paired interval where images are known.

        Returns:
            None if the two have no seed in common.

        Raises:
            UserError: the runs were evaluated on different images.
        """
        ours, theirs = (self._index.get((name, metric), {}) for name in (method, other))
        seeds = [seed for seed in ours if seed in theirs]
        if not seeds:
            return None
        differences = [ours[seed][0] - theirs[seed][0] for seed in seeds]
        pairs = [(ours[seed][1], theirs[seed][1]) for seed in seeds]
        mean = float(np.mean(differences))
        return Value(
            mean,
            sample_sd(differences),
            tuple(seeds),
            tuple(run for pair in pairs for run in pair),
            self._interval(mean, metric, pairs),
        )

    def resampled(self, method: str, metric: str) -> Array | None:
        """The metric's bootstrap replicates, averaged over seeds `(draws,)`; None without per-image values."""
        parts = [self._resample(run, metric) for _, run in self._index.get((method, metric), {}).values()]
        known = [part for part in parts if part is not None]
        return np.mean(known, axis=0) if known and len(known) == len(parts) else None

    def facts(self, column: str) -> list[str]:
        """Distinct non-empty entries of a column of the tidy table, in order of first appearance."""
        return [str(item) for item in self.runs[column].dropna().unique() if str(item)]

    def _interval(self, mean: float, metric: str, pairs: list[tuple[str, str]]) -> Interval | None:
        differences = []
        for ours, theirs in pairs:
            a, b = self._resample(ours, metric), self._resample(theirs, metric)
            if a is None or b is None:
                return None
            differences.append(a - b)
        return interval(mean, np.mean(differences, axis=0))

    def _resample(self, run: str, metric: str) -> Array | None:
        """Replicates of one run; the same resamples for every run, which all hold the same images."""
        key = (run, metric)
        if key not in self._replicates:
            loaded = self._load(run, metric)
            if loaded is None:
                return None
            first = self.runs.iloc[0]
            seed = derive_seed("bootstrap", str(first["scale"]), str(first["task"]))
            self._replicates[key] = replicates(*loaded, seed=seed, draws=self.draws)
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
        rows, given = self.runs, point(*found)
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
