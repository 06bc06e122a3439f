"""New results beside the published ones of the same scale: equal bits, or by how much they differ, and on what.

The same run on the same machine with the same versions has the same bits. On another one it may not; then the scores of
the two trainings differ by chance, and the interval of the difference over the images says how far that goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tap.config.load import load_scale
from tap.config.methods import SCORES
from tap.engine.published import WEIGHTS
from tap.paper.scores import read_arrays
from tap.paper.statistics import Interval, contributions, interval, point, replicates
from tap.paper.tidy import EVALUATION_RECORD, PER_SAMPLE_FILE, TRAINING_RECORD
from tap.provenance.files import sha256_file
from tap.provenance.publish import published_folder
from tap.provenance.record import read_record

_SEED = 0


@dataclass(frozen=True)
class Beside:
    """A run beside the published one of the same name.

    Attributes:
        run: its id.
        same: whether the values of all images are the same, bit for bit.
        differences: new score minus published one, by metric, where they are not.
        circumstances: what of machine, versions, settings, code and inputs differs between the two evaluations or
            trainings, or between the trainings that these go on from.
    """

    run: str
    same: bool
    differences: Mapping[str, Interval]
    circumstances: tuple[str, ...]

    def __str__(self) -> str:
        if self.same:
            return f"{self.run}: the same bits"
        parts = [f"{metric} {d.estimate:+.2f} [{d.low:+.2f}, {d.high:+.2f}]" for metric, d in self.differences.items()]
        why = "; ".join(self.circumstances) or "same machine, versions, settings, code and inputs"
        return f"{self.run}: {', '.join(parts) or 'other images'} ({why})"


def compare_with_published(scale: str, root: Path | str = ".") -> list[Beside]:
    """Sets every run of a scale beside the published one of the same name.

    Args:
        scale: whose.
        root: the project's folder.

    Returns:
        The runs that both have, in the order of their names; none where nothing is published.

    Raises:
        UserError: per-image values cannot be read.
    """
    ours, theirs = Path(root) / "results" / scale / "runs", Path(root) / published_folder(scale) / "runs"
    both = [path.parent.relative_to(theirs) for path in sorted(theirs.rglob(PER_SAMPLE_FILE))]
    return [_beside(run.as_posix(), ours, theirs) for run in both if (ours / run / PER_SAMPLE_FILE).is_file()]


def summary(scale: str, root: Path | str = ".", everything: bool = False) -> str:
    """What `make reproduce` ends with: how many runs are the same, and how far the others are away.

    Args:
        scale: whose.
        root: the project's folder.
        everything: one line for every run, also for those of the same bits.

    Raises:
        UserError: per-image values cannot be read, or there is no such scale.
    """
    scale = load_scale(scale, root=root).scale
    if not (Path(root) / published_folder(scale)).is_dir():
        return f"Nothing is published of scale {scale} to compare with."
    found = compare_with_published(scale, root)
    if not found:
        return f"Beside {published_folder(scale)}: results/{scale} has no run that is published too."
    other = [beside for beside in found if not beside.same]
    lines = [f"Beside {published_folder(scale)}: {len(found) - len(other)} of {len(found)} runs have the same bits."]
    if other:
        lines.append("The others, new minus published score with its 95 % interval over the images:")
    lines += [f"  {beside}" for beside in (found if everything else other)]
    return "\n".join(lines)


def _beside(run: str, ours: Path, theirs: Path) -> Beside:
    values = [folder / run / PER_SAMPLE_FILE for folder in (ours, theirs)]
    if sha256_file(values[0]) == sha256_file(values[1]):
        return Beside(run, True, {}, ())
    arrays = [read_arrays(path) for path in values]
    circumstances = [
        text if source == run else f"{text} of {source}"
        for source, text in _changed_behind(run, ours, theirs, (TRAINING_RECORD, EVALUATION_RECORD))
    ]
    same_images = all("sample_id" in found for found in arrays) and np.array_equal(*(a["sample_id"] for a in arrays))
    differences: dict[str, Interval] = {}
    for metric in SCORES[run.split("/")[0]] if same_images else ():
        pair = [contributions(metric, found) for found in arrays]
        known = [each for each in pair if each is not None]
        if len(known) == len(pair):
            estimates = [point(values, statistic) for values, statistic in known]
            drawn = [replicates(values, statistic, seed=_SEED) for values, statistic in known]
            differences[metric] = interval(estimates[0] - estimates[1], drawn[0] - drawn[1])
    return Beside(run, False, differences, tuple(dict.fromkeys(circumstances)))


def _changed_behind(run: str, ours: Path, theirs: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What differs between two records of a run and of the runs whose weights they read, each with that run's name."""
    runs = Path("results", ours.parent.name, ours.name)  # as records name it
    for name in names:
        new, old = (read_record(folder / run / name) or {} for folder in (ours, theirs))
        for text in _changed(new, old):
            yield run, text
        for path in map(Path, _other_inputs(new, old)):
            if path.name != WEIGHTS or not path.is_relative_to(runs):
                yield run, f"other {path}"
            elif (source := path.parent.relative_to(runs).as_posix()) != run:  # an evaluation reads its own training's
                behind = list(_changed_behind(source, ours, theirs, (TRAINING_RECORD,)))
                yield from behind or [(source, "other weights")]


def _other_inputs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Files that two records of a job read with other content; records of other jobs, which tell of these, are none."""
    new, old = (record.get("inputs", {}) for record in (ours, theirs))
    return [
        path for path in new if path in old and new[path]["sha256"] != old[path]["sha256"] and "made" not in new[path]
    ]


def _changed(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What decides a job's bits beside its inputs and differs between two records of it."""
    found = [
        f"{key} {theirs.get(key)} -> {ours.get(key)}"
        for key in ("device", "system")
        if ours.get(key) != theirs.get(key)
    ]
    old, new = theirs.get("versions", {}), ours.get("versions", {})
    found += [
        f"{name} {old.get(name)} -> {new.get(name)}" for name in sorted({*old, *new}) if old.get(name) != new.get(name)
    ]
    found += ["other settings"] if ours.get("spec") != theirs.get("spec") else []
    return found + (["other code"] if ours.get("fingerprint") != theirs.get("fingerprint") else [])
