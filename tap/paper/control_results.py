"""What the controls of trained TAP checkpoints gave, as tables read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.estimate import Estimate
from tap.paper.measured import Value
from tap.paper.scores import read_arrays
from tap.paper.statistics import Array, contributions, mean, of_units, point, replicates, spearman
from tap.plan.controls import ARRAYS, CONTROLLED, OF_IMAGES, VALUES, controlled_runs
from tap.runs import Run
from tap.seeds import derive_seed
from tap.task_facts import PLACE

_COLUMNS = {"run", "seed", "control", "schedule", "shares", "passes", "exact", "digest", "metric", "value"}


@dataclass(frozen=True)
class Search:
    """What the oracle of a checkpoint has tried.

    Attributes:
        splits: how many.
        images: calibration images, each of them with every split.
        saving: share of the blocks that sharing has saved.
    """

    splits: int
    images: int
    saving: float


@dataclass(frozen=True)
class ControlResults:
    """The controls of the checkpoints of one task and method.

    Attributes:
        frame: a line for each seed, control and metric.
        arrays: what the register decided for every validation image, and the values of single images under each
            control, by run id.
        scale: whose results.
    """

    frame: pd.DataFrame
    arrays: Mapping[str, Mapping[str, np.ndarray]]
    scale: str
    _replicates: dict[tuple[str, str, str], tuple[Array, int]] = field(default_factory=dict, repr=False)

    def value(self, control: str, metric: str) -> Value | None:
        """Mean over seeds; None if the control was not run."""
        return self._mean(control, metric, lambda row: float(row["value"]))

    def has(self, control: str) -> bool:
        """Whether a control was run."""
        return bool((self.frame["control"] == control).any())

    def per_seed(self, control: str, metric: str) -> dict[str, float]:
        """A metric under a control, by the run whose checkpoint it is."""
        return {row["run"]: float(row["value"]) for row in self._rows(control, metric)}

    def difference(self, control: str, other: str, metric: str) -> Value | None:
        """Mean over seeds of control - other on the same checkpoint and images, with its paired interval.

        Returns:
            None if either was not run. Without an interval where the values of single images are not known.

        Raises:
            UserError: values of single images do not give the score that is stated beside them.
        """
        ours, theirs = self.per_seed(control, metric), self.per_seed(other, metric)
        if not ours or not theirs:
            return None
        found = self._mean(control, metric, lambda row: float(row["value"]) - theirs[row["run"]])
        assert found is not None
        pairs = [
            [self._resample(run, name, metric, values[run]) for run in found.runs]
            for name, values in ((control, ours), (other, theirs))
        ]
        by_seed = np.array(found.by_seed)
        drawn = [(a[0] - b[0], a[1]) for a, b in zip(*pairs, strict=True) if a is not None and b is not None]
        if len(drawn) < len(found.runs):
            return found
        resampled = np.stack([values for values, _ in drawn])
        estimate = Estimate(by_seed, resampled, drawn[0][1], found.runs[0].partition("/")[0])
        return replace(found, interval=estimate.interval, precision=estimate.precision)

    def share(self, control: str, metric: str, place: int) -> Value | None:
        """Mean share of the removal budget in percent at a pruning block, by its place; None if it was not run."""
        return self._mean(control, metric, lambda row: 100 * json.loads(row["shares"])[place])

    def register(self, name: str, place: int, statistic: Callable[[Array], float]) -> Value | None:
        """A statistic over all validation images of the first seed's checkpoint, which stands for the method.

        Args:
            name: `shares` or `scales`.
            place: of the pruning block.
            statistic: of the values that are known `(n,)`.
        """
        run = next(iter(self.arrays))
        if name not in self.arrays[run]:
            return None
        values = self.arrays[run][name][:, place]
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        return Value(statistic(values), None, (Run.parse(self.scale, run).seed,), (run,))

    def agreement(self, ranking: str) -> Value | None:
        """Spearman's correlation of a ranking of patch groups with what each is worth to the loss, averaged over images
        and seeds, with its interval over images (over places where several are views of one, without any for a
        single one); None where no image has groups that differ.

        Args:
            ranking: `register`, `attention`, `random` or `gradient`.
        """
        found = {}
        for run, arrays in self.arrays.items():
            if "choice_worth" in arrays:
                values = spearman(arrays[f"choice_{ranking}"], arrays["choice_worth"])
                pairs = np.stack([np.nan_to_num(values), ~np.isnan(values)], axis=1).astype(np.float64)
                found[run] = of_units(pairs, arrays.get(f"choice_{PLACE}"))
        found = {run: pairs for run, pairs in found.items() if pairs[:, 1].any()}
        if not found:
            return None
        seed = derive_seed("bootstrap", self.scale, next(iter(found)).partition("/")[0], "choice")
        means = {Run.parse(self.scale, run).seed: point(pairs, mean) for run, pairs in found.items()}
        units = len(next(iter(found.values())))
        if units == 1:  # its resamples are all the same, which would look exact
            return Value.of(means, found)
        drawn = np.stack([replicates(pairs, mean, seed=seed) for pairs in found.values()])
        return Value.of(means, found, Estimate(np.array([*means.values()]), drawn, units, next(iter(found))))

    @property
    def search(self) -> Search | None:
        """The oracle's search for the first seed's checkpoint; None where it was not kept."""
        arrays = next(iter(self.arrays.values()))
        if "oracle_losses" not in arrays:
            return None
        (images, splits), (run, alone) = arrays["oracle_losses"].shape, arrays["oracle_blocks"]
        return Search(splits, images, 1.0 - run / alone)

    @property
    def identity(self) -> str:
        """In how many passes of all rows the removals sum to N - K, in words."""
        rows = self.frame.drop_duplicates(["run", "control"])
        return f"{rows['exact'].sum():,} of {rows['passes'].sum():,}"

    def digests(self, controls: list[str]) -> set[str]:
        """Hashes of the selected sets and allocations of some controls, of the first seed's checkpoint."""
        rows = self.frame[self.frame["run"] == next(iter(self.arrays))]
        return set(rows[rows["control"].isin(controls)]["digest"])

    def of_images(self, run: str, control: str) -> dict[str, np.ndarray]:
        """Values of single images under a control `(n, ...)` by name; empty where they were not kept."""
        start = f"{control}{OF_IMAGES}"
        return {name.removeprefix(start): values for name, values in self.arrays[run].items() if name.startswith(start)}

    def _resample(self, run: str, control: str, metric: str, stated: float) -> tuple[Array, int] | None:
        """The metric's bootstrap replicates; the same resamples for all controls of a task, which share its images."""
        if (key := (run, control, metric)) not in self._replicates:
            found = contributions(metric, self.of_images(run, control))
            if found is None:
                return None
            if not same(stated, given := point(*found)):
                file = (Run.parse(self.scale, run).folder / VALUES).as_posix()
                raise UserError(f"{Difference(file, f'{control}, {metric}', stated, given)}; control {run} again")
            seed = derive_seed("bootstrap", self.scale, run.partition("/")[0], "controls")
            self._replicates[key] = replicates(*found, seed=seed), len(found[0])
        return self._replicates[key]

    def _rows(self, control: str, metric: str) -> list[dict]:
        chosen = self.frame[(self.frame["control"] == control) & (self.frame["metric"] == metric)]
        return chosen.sort_values("seed").to_dict("records")

    def _mean(self, control: str, metric: str, of: Callable[[dict], float]) -> Value | None:
        rows = self._rows(control, metric)
        if not rows:
            return None
        return Value.of({int(row["seed"]): of(row) for row in rows}, (row["run"] for row in rows))


def read_controls(cfg: ScaleConfig, task: str, method: str, root: Path = Path(".")) -> ControlResults | None:
    """The controls of a task and method; None if none of its checkpoints was controlled.

    Raises:
        UserError: a file cannot be read, or is of another form.
    """
    frames, arrays = [], {}
    for run in controlled_runs(cfg, task) if method in CONTROLLED else []:
        path = root / run.folder / VALUES
        if run.method != method or not path.is_file():
            continue
        try:
            frame = pd.read_csv(path)
        except (OSError, ValueError, pd.errors.ParserError) as error:
            raise UserError(f"{path}: cannot be read as a table ({error}); `tap control {run.id}` makes it") from error
        if not set(frame.columns) >= _COLUMNS:
            raise UserError(f"{path}: is not a table of controls; `tap control {run.id}` makes it")
        frames.append(frame)
        arrays[run.id] = read_arrays(root / run.folder / ARRAYS)
    return ControlResults(pd.concat(frames, ignore_index=True), arrays, cfg.scale) if frames else None
