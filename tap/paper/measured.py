"""What the runs of one table measured: means over seeds, changes from no pruning, and their bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from tap.config.methods import DENSE
from tap.errors import UserError
from tap.paper.statistics import (
    DRAWS,
    Array,
    Interval,
    Statistic,
    contributions,
    interval,
    replicates,
    sample_sd,
)
from tap.seeds import derive_seed


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
    """

    frame: pd.DataFrame
    rate: float
    root: Path = Path(".")
    draws: int = DRAWS
    _replicates: dict[tuple[str, str], Array] = field(default_factory=dict, repr=False)
    _images: tuple[str, np.ndarray] | None = field(default=None, repr=False)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Rows of the tidy table that count here: the main variant, at this rate or without pruning."""
        frame = self.frame
        at_rate = (frame["rate"] == self.rate) | (frame["method"] == DENSE)
        return frame[at_rate & (frame["variant"] == "main")]

    def has(self, method: str) -> bool:
        """Whether any run of the method is there."""
        return bool((self.runs["method"] == method).any())

    def value(self, method: str, metric: str) -> Value | None:
        """Mean of a metric over the method's seeds; None if it was not measured."""
        rows = self._rows(method, metric)
        if not len(rows):
            return None
        values = rows["value"].tolist()
        return Value(float(np.mean(values)), sample_sd(values), tuple(rows["seed"]), tuple(rows["run"]))

    def difference(self, method: str, metric: str, other: str = DENSE) -> Value | None:
        """Mean of (method - other) over the seeds that both have, with a paired interval where images are known.

        Returns:
            None if the two have no seed in common.

        Raises:
            UserError: the runs were evaluated on different images.
        """
        ours = self._rows(method, metric).set_index("seed")
        theirs = self._rows(other, metric).set_index("seed")
        seeds = sorted(set(ours.index) & set(theirs.index))
        if not seeds:
            return None
        differences = [float(ours.loc[seed, "value"] - theirs.loc[seed, "value"]) for seed in seeds]
        pairs = [(str(ours.loc[seed, "run"]), str(theirs.loc[seed, "run"])) for seed in seeds]
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
        runs = self._rows(method, metric)["run"]
        parts = [self._resample(str(run), metric) for run in runs]
        known = [part for part in parts if part is not None]
        return np.mean(known, axis=0) if known and len(known) == len(parts) else None

    def facts(self, column: str) -> list[str]:
        """Distinct non-empty entries of a column of the tidy table, in order of first appearance."""
        return [str(item) for item in self.runs[column].dropna().unique() if str(item)]

    def _rows(self, method: str, metric: str) -> pd.DataFrame:
        rows = self.runs[(self.runs["method"] == method) & (self.runs["metric"] == metric)]
        return rows.sort_values("seed")

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
        path = str(self.runs.loc[self.runs["run"] == run, "per_sample"].iloc[0])
        if not path:
            return None
        arrays = _read_arrays(self.root / path)
        found = contributions(metric, arrays)
        if found is None:
            return None
        self._check_images(run, path, arrays)
        return found

    def _check_images(self, run: str, path: str, arrays: dict[str, np.ndarray]) -> None:
        if "sample_id" not in arrays:
            raise UserError(f"{path}: has no 'sample_id', so its images cannot be paired; evaluate {run} again")
        first, ids = self._images = self._images or (run, arrays["sample_id"])
        if not np.array_equal(arrays["sample_id"], ids):
            raise UserError(f"{path}: holds other images than {first}; evaluate both on the same split")


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"{path}: cannot be read as per-image results ({error}); evaluate the run again") from error
