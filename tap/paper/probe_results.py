"""The controlled probes of a task as tables, figures and claims read them: drops with bootstrap replicates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.estimate import Derived, Estimate, mean_of, over_seeds
from tap.paper.scores import read_arrays
from tap.paper.statistics import (
    PLACE,
    Array,
    Interval,
    contributions,
    interval,
    point,
    replicates,
    resampled_correlation,
    spearman,
)
from tap.paper.tidy_probes import NO_PRUNING, read_tidy_probes
from tap.plan.results import PROBES, tidy_path
from tap.seeds import derive_seed
from tap.task_facts import TASKS


def read_probe(scale: str, task: str, kind: str, root: Path | str = ".", compare: bool = True) -> ProbeResults | None:
    """A task's probe, ``layers`` or ``recovery``, from its tidy table; None if it is not made.

    Args:
        scale, task, kind: which one.
        root: the project's folder.
        compare: as in `ProbeResults`.

    Raises:
        UserError: the tidy table cannot be read.
    """
    path = Path(root) / tidy_path(scale, f"{PROBES}{task}")
    if not path.is_file():
        return None
    frame = read_tidy_probes(path)
    frame = frame[frame["probe"] == kind].reset_index(drop=True)
    return None if frame.empty else ProbeResults(frame, Path(root), compare)


def _named(root: Path, tidy: Path, name: str) -> Path:
    """A file that a tidy table names: without it intervals would vanish from what is made of the table."""
    path = root / name
    if not path.is_file():
        raise UserError(f"{path}: is not there, and {tidy} names it; take it back (git checkout), or probe again")
    return path


@dataclass
class ProbeResults:
    """What one probe of one task found.

    Attributes:
        frame: its lines of the tidy table.
        root: the project's folder, where the names of files start.
        compare: refuse a score that its per-image values do not give, before an interval of theirs stands beside it.
    """

    frame: pd.DataFrame
    root: Path = Path(".")
    compare: bool = True
    _replicates: dict[tuple[int, str], tuple[Array, int] | None] = field(default_factory=dict, repr=False)

    @property
    def task(self) -> str:
        """Name of the task."""
        return str(self.frame["task"].iloc[0])

    @property
    def id(self) -> str:
        """How audits call the probe: ``probes/seg/layers``."""
        return f"probes/{self.task}/{self.frame['probe'].iloc[0]}"

    @property
    def layers(self) -> list[int]:
        """Probed blocks, ascending."""
        return sorted(int(layer) for layer in self.frame["layer"].unique() if layer > 0)

    @property
    def criteria(self) -> list[str]:
        """Probed criteria."""
        return [name for name in dict.fromkeys(self.frame["criterion"]) if name != NO_PRUNING]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the probed checkpoints, ascending."""
        return tuple(sorted(int(seed) for seed in self.frame["seed"].unique()))

    @property
    def runs(self) -> tuple[str, ...]:
        """Checkpoints that were probed."""
        return tuple(dict.fromkeys(self.frame["run"]))

    def facts(self, column: str) -> list[str]:
        """Distinct entries of a column of the tidy table."""
        return [str(item) for item in self.frame[column].unique()]

    def score(self, criterion: str, metric: str, seed: int, layer: int = 0, endpoint: float | None = None) -> Estimate:
        """What one checkpoint scores under one probe; criterion `dense` at block 0 is no pruning.

        Raises:
            UserError: the probe was not made.
        """
        frame = self.frame
        of_probe = (frame["criterion"] == criterion) & (frame["layer"] == layer) & (frame["seed"] == seed)
        rows = frame[of_probe & (frame["metric"] == metric)]
        rows = rows if endpoint is None else rows[rows["endpoint"] == endpoint]
        if len(rows) != 1:
            what = f"{criterion} at block {layer}, seed {seed}, {metric}"
            raise UserError(f"{self.id}: {len(rows)} lines for {what}; make the probe again")
        key, stated = (int(rows["position"].iloc[0]), metric), float(rows["value"].iloc[0])
        if key not in self._replicates:
            self._replicates[key] = self._resample(*key, stated)
        drawn = self._replicates[key]
        one = np.array([stated])
        return Estimate(one, None) if drawn is None else Estimate(one, drawn[0][None], drawn[1], self.task)

    def anchor(self, metric: str) -> Estimate:
        """No pruning, mean over the checkpoints."""
        return over_seeds([self.score(NO_PRUNING, metric, seed) for seed in self.seeds])

    def drop(self, criterion: str, metric: str, layers: Sequence[int], endpoint: float | None = None) -> Estimate:
        """Mean over blocks and checkpoints of what pruning loses against no pruning, in the metric's unit.

        Raises:
            UserError: a probe that is asked for is not there.
        """
        parts, gain = [], TASKS[self.task].metric(metric).gain
        for seed in self.seeds:
            dense = self.score(NO_PRUNING, metric, seed)
            scores = (self.score(criterion, metric, seed, layer, endpoint) for layer in layers)
            parts.append(mean_of([gain(dense, score) for score in scores]))
        return over_seeds(parts)

    def mean_drops(self, metric: str) -> dict[str, Estimate]:
        """Mean drop of every criterion over the probed blocks.

        Raises:
            UserError: a criterion was not probed at every block.
        """
        return {name: self.drop(name, metric, self.layers) for name in self.criteria}

    def _resample(self, position: int, metric: str, stated: float) -> tuple[Array, int] | None:
        arrays = {name: values if name == PLACE else values[position] for name, values in self._arrays.items()}
        found = contributions(metric, arrays)
        if found is None:
            return None
        given, field = point(*found), f"{metric} of probe {position}"
        if self.compare and not same(stated, given):
            raise UserError(f"{Difference(f'tidy table, {self.id}', field, stated, given)}; gather again")
        seed = derive_seed("bootstrap", str(self.frame["scale"].iloc[0]), self.task)
        return replicates(*found, seed=seed), len(found[0])

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        name = str(self.frame["per_sample"].iloc[0])
        if not name:
            return {}
        path = _named(self.root, self.root / tidy_path(str(self.frame["scale"].iloc[0]), f"{PROBES}{self.task}"), name)
        return {name: values for name, values in read_arrays(path, "probe again").items() if name != "sample_id"}


def correlation(first: Sequence[Estimate], second: Sequence[Estimate]) -> tuple[float, Interval | None]:
    """Spearman's rank correlation of two lists of estimates, one for each criterion.

    Images and seeds of the two are resampled independently of each other, and the criteria with them: those that were
    probed are some of many.

    Returns:
        The correlation, NaN where one side is constant or there are fewer than two pairs, and its interval, None where
        single images are not known.
    """
    if len(first) < 2:
        return math.nan, None
    estimate = float(spearman(*(np.array([item.value for item in part]) for part in (first, second))))
    parts = [[item.drawn for item in part] for part in (first, second)]
    if any(item is None for part in parts for item in part):
        return estimate, None
    drawn = resampled_correlation(*(np.stack(part, axis=1) for part in parts))  # type: ignore[arg-type]
    found = interval(estimate, drawn)
    return estimate, None if math.isnan(found.low) else found


def ranks(drops: Mapping[str, Estimate]) -> dict[str, Derived]:
    """Ranks from 1 for the smallest drop, anew on every resample; ties share the mean of their ranks."""
    values = rankdata(np.array([drop.value for drop in drops.values()]))
    known = [drop.drawn for drop in drops.values() if drop.drawn is not None]
    resampled = rankdata(np.stack(known, axis=1), axis=-1) if known and len(known) == len(drops) else None
    return {
        name: Derived(float(values[number]), None if resampled is None else resampled[:, number])
        for number, name in enumerate(drops)
    }


def stretch(layers: Sequence[int], which: str) -> list[int]:
    """Some of the probed blocks: ``early`` is the first quarter (at least one), ``late`` the rest, ``all`` is all.

    Raises:
        UserError: another word.
    """
    first = max(1, len(layers) // 4)
    parts = {"early": list(layers[:first]), "late": list(layers[first:]), "all": list(layers)}
    if which not in parts:
        raise UserError(f"layers: '{which}' is not one of early, late, all")
    return parts[which]
