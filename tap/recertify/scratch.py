"""Scratch projects for replays: what a job reads, at the places where its code looks, and nothing else to write to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tap.provenance.record import OUTSIDE, read_record

_OF_THE_PROJECT: Final = ("data", "params.yaml")


def make_scratch(folder: Path, tree: Path, root: Path) -> Path:
    """An empty project with the data and settings of another, and the scales of a tree.

    Args:
        folder: where; emptied first.
        tree: whose scales.
        root: the project.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in _OF_THE_PROJECT:
        if (root / name).exists():
            (folder / name).symlink_to((root / name).resolve())
    (folder / "workflow").symlink_to((tree / "workflow").resolve())
    return folder


def bring_inputs(content: Mapping[str, Any], folder: Path, root: Path) -> None:
    """Brings what a job has read: the inputs of its record, and what records among these say was made beside them."""
    for name in content.get("inputs", {}):
        _bring(name, folder, root)
        beside = read_record(root / name) if name.endswith(".json") and not name.startswith(OUTSIDE) else None
        for made in (beside or {}).get("outputs", {}):
            if Path(made).parent == Path(name).parent:
                _bring(made, folder, root)


def _bring(name: str, folder: Path, root: Path) -> None:
    source, target = root / name, folder / name
    if name.startswith(f"{OUTSIDE}/") or target.exists() or not source.is_file():
        return
    if any(target.parent.resolve().is_relative_to((root / part).resolve()) for part in _OF_THE_PROJECT):
        return  # through the link
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copy2(source, target)
