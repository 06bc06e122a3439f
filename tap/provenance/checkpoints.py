"""Weights where DVC keeps them: one folder for each stage, since a DVC stage names folders and a run's folder holds
small files that git keeps.

A checkpoint starts as the run's file under a second name (a hard link where the disk allows it); DVC then puts a copy
of its own in place. After a clone the folders come from DVC, and the runs get their weights from there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.files import make_folder, sha256_file, writing
from tap.provenance.ledger import CHECKPOINTS
from tap.provenance.record import RECORD, read_record
from tap.provenance.stages import Stage, data_folders, stage_of
from tap.runs import Run

WEIGHTS = "model.safetensors"


def folder_of(scale: str, stage: str) -> Path:
    """Where DVC keeps the weights of a stage, relative to the project's root."""
    return Path("results") / scale / CHECKPOINTS / stage


def collect(cfg: ScaleConfig, stage: Stage, root: Path | str = ".") -> list[Path]:
    """Fills a stage's folders with what its runs have trained, and makes them where there is nothing to keep.

    Returns:
        The checkpoints.

    Raises:
        UserError: a run's weights are not those of its record.
    """
    for name in data_folders(root) if stage.cached else []:
        make_folder(Path(root) / name)
    if not stage.methods:
        return []
    folder = Path(root) / folder_of(cfg.scale, stage.name)
    make_folder(folder)
    made = []
    for weights in sorted((Path(root) / "results" / cfg.scale / "runs").rglob(WEIGHTS)):
        run = Run.parse(cfg.scale, weights.parent.relative_to(Path(root) / "results" / cfg.scale / "runs").as_posix())
        if run.method not in stage.methods:
            continue
        recorded, checkpoint = _recorded(run, Path(root)), folder / f"{run.id}.safetensors"
        _expect(weights, recorded)
        if not checkpoint.is_file() or sha256_file(checkpoint) != recorded:
            _second_name(weights, checkpoint)
        made.append(checkpoint)
    for other in set(folder.rglob("*.safetensors")) - set(made):
        other.unlink()
    return made


def kept_weights(cfg: ScaleConfig, root: Path | str = ".") -> dict[str, Path]:
    """The weights that runs lack and DVC kept.

    Returns:
        Checkpoints by the name of the file that the run lacks.

    Raises:
        UserError: a checkpoint is not what its run's record says.
    """
    kept = {}
    for checkpoint, stage, run in _stored(cfg, Path(root)):
        if stage != stage_of(run.method):
            raise UserError(f"{checkpoint}: not a place for weights of {run.id}; delete it")
        if not (Path(root) / run.folder / WEIGHTS).is_file():
            _expect(checkpoint, _recorded(run, Path(root)))
            kept[(run.folder / WEIGHTS).as_posix()] = checkpoint
    return kept


def differing(cfg: ScaleConfig, root: Path | str = ".") -> list[tuple[Path, str]]:
    """Checkpoints that are not the weights of their run: edited, or from before a later training.

    Returns:
        Their paths within the project, each with its stage.
    """
    found = []
    for checkpoint, stage, run in _stored(cfg, Path(root)):
        weights = Path(root) / run.folder / WEIGHTS
        same = weights.is_file() and weights.samefile(checkpoint)  # two names of one file
        if not same and sha256_file(checkpoint) != _recorded(run, Path(root)):
            found.append((checkpoint.relative_to(root), stage))
    return found


def bring_back(kept: Mapping[str, Path], root: Path | str = ".") -> None:
    """Gives runs the weights that they lack."""
    for name, checkpoint in kept.items():
        _second_name(checkpoint, Path(root) / name)


def _stored(cfg: ScaleConfig, root: Path) -> Iterator[tuple[Path, str, Run]]:
    """The checkpoints that DVC keeps of a scale, each with its stage and its run."""
    store = root / folder_of(cfg.scale, "")
    for path in sorted(store.rglob("*.safetensors")):
        stage, *parts = path.relative_to(store).with_suffix("").parts
        yield path, stage, Run.parse(cfg.scale, "/".join(parts))


def _recorded(run: Run, root: Path) -> str | None:
    """Hash of a run's weights by its record."""
    record = read_record(root / run.folder / RECORD) or {}
    return record.get("outputs", {}).get((run.folder / WEIGHTS).as_posix(), {}).get("sha256")


def _expect(path: Path, digest: str | None) -> None:
    if digest is None:
        raise UserError(f"{path}: unknown: no record says which job made it; delete it")
    if sha256_file(path) != digest:
        raise UserError(
            f"{path}: edited: not what the record of its run says that the training made; take it back (dvc checkout), "
            "or delete it and snakemake makes it anew"
        )


def _second_name(file: Path, name: Path) -> None:
    """Gives a file a second name, replacing what had it."""
    temporary = name.with_name(f".{name.name}.tmp")
    with writing(name):
        name.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        try:
            os.link(file, temporary)
        except OSError:  # another disk, or one without links
            shutil.copy2(file, temporary)
        os.replace(temporary, name)
