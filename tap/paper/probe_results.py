"""The controlled probes of a task as the predicates read them: drops from no pruning, with bootstrap replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from tap.errors import UserError
from tap.paper.statistics import Array, Interval, contributions, interval, replicates
from tap.seeds import derive_seed

VALUES, PER_SAMPLE, RECORD = "values.csv", "per_sample.npz", "probe.json"
NO_PRUNING = "dense"
_NEEDED = {"run", "seed", "criterion", "layer", "endpoint", "metric", "value", "position"}


@dataclass(frozen=True)
class Estimate:
    """A number with its values on the resamples of the images `(draws,)`; None where single images are not known."""

    value: float
    resampled: Array | None

    def __sub__(self, other: Estimate) -> Estimate:
        known = self.resampled is not None and other.resampled is not None
        return Estimate(self.value - other.value, self.resampled - other.resampled if known else None)  # type: ignore[operator]

    @property
    def interval(self) -> Interval | None:
        """Percentile interval."""
        return None if self.resampled is None else interval(self.value, self.resampled)


@dataclass
class ProbeResults:
    """What one probe of one task found.

    Attributes:
        folder: where it lies, with ``values.csv``: one line for each probe and metric, and for no pruning (layer 0).
        scale: of the checkpoints.
        task: seg, det or cls.
    """

    folder: Path
    scale: str
    task: str
    _replicates: dict[tuple[int, str], Array | None] = field(default_factory=dict, repr=False)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All lines.

        Raises:
            UserError: the file is no list of probes.
        """
        path = self.folder / VALUES
        try:
            frame = pd.read_csv(path)
        except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise UserError(f"{path}: cannot be read ({error}); make the probe again") from error
        if missing := _NEEDED - set(frame.columns):
            raise UserError(f"{path}: has no column '{sorted(missing)[0]}'; make the probe again")
        return frame

    @property
    def id(self) -> str:
        """How audits call the probe: ``probes/seg/layers``."""
        return f"probes/{self.task}/{self.folder.name}"

    @property
    def layers(self) -> list[int]:
        """Probed blocks, ascending."""
        return sorted(int(layer) for layer in self.frame["layer"].unique() if layer > 0)

    @property
    def criteria(self) -> list[str]:
        """Probed criteria, in the order of the file."""
        names = dict.fromkeys(self.frame["criterion"])
        return [name for name in names if name != NO_PRUNING]

    @property
    def runs(self) -> tuple[str, ...]:
        """Checkpoints that were probed."""
        return tuple(dict.fromkeys(self.frame["run"]))

    def drop(self, criterion: str, metric: str, layers: Sequence[int], endpoint: float | None = None) -> Estimate:
        """Mean over layers and checkpoints of (no pruning - pruned), in points.

        Raises:
            UserError: a probe that is asked for is not there.
        """
        parts = []
        frame = self.frame[self.frame["metric"] == metric]
        for seed in sorted(frame["seed"].unique()):
            of_seed = frame[frame["seed"] == seed]
            dense = self._estimate(of_seed[of_seed["criterion"] == NO_PRUNING], metric, "no pruning")
            for layer in layers:
                rows = of_seed[(of_seed["criterion"] == criterion) & (of_seed["layer"] == layer)]
                rows = rows if endpoint is None else rows[rows["endpoint"] == endpoint]
                parts.append(dense - self._estimate(rows, metric, f"{criterion} at block {layer}"))
        known = [part.resampled for part in parts if part.resampled is not None]
        resampled = np.mean(known, axis=0) if known and len(known) == len(parts) else None
        return Estimate(float(np.mean([part.value for part in parts])), resampled)

    def _estimate(self, rows: pd.DataFrame, metric: str, what: str) -> Estimate:
        if len(rows) != 1:
            raise UserError(f"{self.folder / VALUES}: {len(rows)} lines for {what} and {metric}; make the probe again")
        position = int(rows["position"].iloc[0])
        key = (position, metric)
        if key not in self._replicates:
            self._replicates[key] = self._resample(position, metric)
        return Estimate(float(rows["value"].iloc[0]), self._replicates[key])

    def _resample(self, position: int, metric: str) -> Array | None:
        found = contributions(metric, {name: values[position] for name, values in self._arrays.items()})
        if found is None:
            return None
        return replicates(*found, seed=derive_seed("bootstrap", self.scale, self.task))

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        path = self.folder / PER_SAMPLE
        if not path.is_file():
            return {}
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name != "sample_id"}


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
