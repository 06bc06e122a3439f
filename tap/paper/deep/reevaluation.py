"""Some images of every run evaluated anew from its weights: what only somebody who has trained can answer for.

Which images is drawn anew each time, so that nobody can know beforehand where a value will be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch.utils.data import Subset

from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.engine.checkpoint import load_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.joint_files import load_alone
from tap.errors import UserError
from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, place_of, read_json, run_of_record
from tap.paper.difference import Difference
from tap.paper.scores import read_arrays
from tap.paper.tidy import PER_SAMPLE_FILE
from tap.plan.endpoints import uses_endpoint
from tap.plan.joint import is_joint
from tap.plan.results import METRICS
from tap.provenance.fingerprint import version
from tap.provenance.ledger import Ledger, Record
from tap.runs import Run
from tap.seeds import derive_seed
from tap.studies.evaluation import facts_of_model
from tap.tasks.pipeline import Pipeline, joined
from tap.tasks.registry import get_task

IMAGES: Final = 64
"""Images of each run: a score raised by 3 points on other images than these is overlooked once in seven runs."""
ELSEWHERE: Final = 0.05
"""Share of the sampled images that may differ where another processor or other libraries computed: at some borders a
last digit decides a class, a pixel or a match."""
ROUNDING: Final = 1e-4
"""Largest difference of real numbers there."""
_RUNS, _IMAGES = "runs evaluated anew", "images of them"
_WEIGHTS: Final = (".safetensors", ".pth", ".pt", ".bin")


@dataclass(frozen=True)
class Sample:
    """Which images are looked at.

    Attributes:
        seed: decides them.
        images: so many of each run; all of a run that has fewer.
    """

    seed: int
    images: int = IMAGES

    def of(self, run: Run, count: int) -> list[int]:
        """Positions within a run's validation split of `count` images, ascending."""
        chosen = np.random.default_rng(derive_seed("deep", self.seed, run.id)).permutation(count)[: self.images]
        return sorted(chosen.tolist())


def reevaluate(
    cfg: ScaleConfig, ledger: Ledger, sample: Sample, progress: Callable[[list[Record]], Iterator[Record]] = iter
) -> Outcome:
    """Evaluates a sample of the images of every run whose weights are there, and compares value by value.

    On the processor and with the libraries of the first time every bit must be the same.

    Args:
        cfg: settings of the scale, which say where the data are.
        ledger: the records.
        sample: which images.
        progress: shows how far it is, given the records of the evaluations.

    Returns:
        What differs; runs without weights are named in one note.
    """
    outcome = Outcome()
    evaluations = by_job(ledger, "evaluate")
    known = [record for record in evaluations if _weights(ledger, record) is not None]
    for record in progress(known):
        with outcome.following(record.name):
            images, differences = _again(cfg, ledger, record, sample)
            outcome.add(_RUNS, 1, differences)
            outcome.add(_IMAGES, images)
    without = ["/".join(Path(record.name).parts[3:-1]) for record in evaluations if record not in known]
    if without:
        outcome.notes.append(f"not evaluated anew, since their weights are not there: {_named(without)}")
    return outcome


def compare(
    file: str, positions: list[int], recorded: Mapping[str, NDArray], anew: Mapping[str, NDArray], exact: bool
) -> list[Difference]:
    """Values of some images that an evaluation from the weights does not give.

    Args:
        file: where the recorded ones are.
        positions: of the images in it.
        recorded: all arrays of the file `(n, ...)`.
        anew: arrays of the images at the positions, in their order.
        exact: every bit counts; otherwise real numbers may differ by `ROUNDING` and `ELSEWHERE` of the images in all.
    """
    if recorded.keys() != anew.keys():
        return [Difference(file, "arrays", " ".join(sorted(recorded)), " ".join(sorted(anew)))]
    found: list[Difference] = []
    wrong = np.zeros(len(positions), dtype=bool)
    for name in sorted(recorded):
        ours, theirs = recorded[name][positions], anew[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            kinds = (f"{values.dtype} {values.shape[1:]}" for values in (ours, theirs))
            found.append(Difference(file, name, *kinds))
            continue
        close = not exact and ours.dtype.kind == "f"
        same = np.isclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING) if close else ours == theirs
        differs = ~same.reshape(len(positions), -1).all(axis=1)
        wrong |= differs
        if differs.any() and (exact or name == "sample_id"):
            first = int(np.flatnonzero(differs)[0])
            about = f"image {recorded['sample_id'][positions[first]]}, one of {differs.sum()} that differ"
            place = tuple(int(part) for part in np.argwhere(~same[first])[0]) if same[first].ndim else ()
            values = (values[first][place].item() for values in (ours, theirs))
            found.append(Difference(file, f"{name}{list(place) or ''} of {about}", *values))
    if not exact and wrong.mean() > ELSEWHERE:
        allowed = f"at most {ELSEWHERE:.0%} on another processor or with other libraries"
        found.append(Difference(file, "images", "as stated", f"{wrong.mean():.0%} of {len(wrong)} differ; {allowed}"))
    return found


def _again(cfg: ScaleConfig, ledger: Ledger, record: Record, sample: Sample) -> tuple[int, list[Difference]]:
    """Evaluates one run's sample.

    Returns:
        How many images, and what differs.
    """
    run, weights = run_of_record(record), _weights(ledger, record)
    assert weights is not None
    file, values = (f"{run.folder.as_posix()}/{name}" for name in (METRICS, PER_SAMPLE_FILE))
    stated, arrays = read_json(ledger, file), read_arrays(place_of(ledger, values))
    spec = _spec(cfg, ledger, record, stated)
    task = get_task(spec)
    if not isinstance(task, Pipeline):
        return 0, []
    dataset: Any = task.datasets(spec).validation
    count = len(arrays["sample_id"])
    if len(dataset) != count:
        return 0, [Difference(values, "images", count, len(dataset))]
    positions = sample.of(run, count)
    device = select_device(spec.device)
    with cpu_threads(spec.eval.threads), torch.inference_mode():
        model: Any = task.build_model(spec)
        _load(spec, model, record, weights)
        model.to(device).eval()
        batches = task.loader(Subset(dataset, positions), spec)
        anew = joined([task.examine_batch(model, spec, batch.to(device)) for batch in batches])
        here = describe_device(device)
    facts = facts_of_model(spec, model)
    found = [Difference(file, key, stated[key], facts[key]) for key in facts if stated.get(key) != facts[key]]
    return len(positions), found + compare(values, positions, arrays, anew, _is_as_then(record, stated, here))


def _spec(cfg: ScaleConfig, ledger: Ledger, record: Record, stated: Mapping[str, Any]) -> JobSpec:
    """The settings that the evaluation had, with the data where they are now."""
    try:
        spec = JobSpec.model_validate(record.content["spec"])
    except ValidationError as error:
        raise UserError(f"{record.name}: its settings are of an earlier form, so its run is not evaluated") from error
    if spec.task not in cfg.all_tasks:
        raise UserError(f"{record.name}: task '{spec.task}' is not among the settings, so its run is not evaluated")
    data = spec.data.model_copy(
        update={"root": str(ledger.root / Path(cfg.all_tasks[spec.task].data.root).expanduser())}
    )
    update: dict[str, Any] = {"data": data, "device": cfg.device}
    if uses_endpoint(spec):
        update["recovery"] = spec.recovery.model_copy(update={"endpoint": stated["recovery_endpoint"]})
    return spec.model_copy(update=update)


def _is_as_then(record: Record, stated: Mapping[str, Any], here: str) -> bool:
    """Whether the processor and the libraries are those of the evaluation."""
    libraries = {name: text for name, text in record.content["versions"].items() if name != "python"}
    return stated["device"] == here and all(text == version(name) for name, text in libraries.items())


def _weights(ledger: Ledger, record: Record) -> dict[str, Path] | None:
    """Places of the weights that an evaluation read, by name; None if one of them is not there."""
    names = [name for name in record.inputs if Path(name).suffix in _WEIGHTS]
    places = {name: place for name in names if (place := ledger.place(name)) is not None and place.is_file()}
    return places if names and len(places) == len(names) else None


def _load(spec: JobSpec, model: Any, record: Record, weights: Mapping[str, Path]) -> None:
    """Fills a model with its weights among those that its evaluation read: one file, or a frozen base and a task's."""
    hashes = {name: str(record.inputs[name]["sha256"]) for name in weights}
    folder = run_of_record(record).folder.as_posix()
    own = next(name for name in weights if name.startswith(f"{folder}/"))
    if not is_joint(spec):
        load_weights(weights[own], model, hashes[own])
        return
    base = next(name for name in weights if f"/{spec.method}/" not in name)  # other tasks' runs are read as well
    load_alone(model, spec.task, weights[base], weights[own], hashes[base], hashes[own])


def _named(runs: list[str]) -> str:
    shown = ", ".join(runs[:3])
    return f"{shown} and {len(runs) - 3} more" if len(runs) > 3 else shown
