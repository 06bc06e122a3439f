"""What the audit says in words that a stranger knows: data in the place of the paper's, captions of figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tap.paper.names import title_of
from tap.paper.tables.caption import DATASETS
from tap.task_facts import TASKS

_PAPER: Final = {"cls": "imagenet", "seg": "ade20k", "det": "coco"}
"""Data set of the paper's results of each task."""
PICTURE: Final = "Validation images with their labels, what the model says of them, and the patches that it kept."


def stand_ins(used: Iterable[tuple[str, str]]) -> str:
    """What was measured in the place of the paper's data: "with ours in the place of theirs"; empty where it is theirs.

    Args:
        used: (task, configured name of its data set).
    """
    of_data: dict[str, list[str]] = {}
    for task, name in used:
        if task in _PAPER and name != _PAPER[task]:
            of_data.setdefault(DATASETS.get(name, name), []).append(DATASETS[_PAPER[task]])
    parts = [f"{ours} in the place of {' and '.join(theirs)}" for ours, theirs in of_data.items()]
    return f"with {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Picture:
    """A figure or a picture of a run, with what stands below it.

    Attributes:
        title: its name.
        path: an SVG or PNG file.
        lead: the first paragraph of its caption.
        further: the other paragraphs, each one a text or the items of a list.
    """

    title: str
    path: Path
    lead: str
    further: tuple[str | tuple[str, ...], ...] = ()


def pictures_of(results: Path) -> tuple[Picture, ...]:
    """Figures of a folder of results, then the pictures of its runs."""
    drawn = sorted((results / "figures").glob("*.svg"), key=lambda path: (path.stem != "fig_insight", path.stem))
    figures = [_figure(path, path.with_suffix(".caption.md")) for path in drawn]
    runs = results / "runs"
    pictures = sorted(runs.glob("*/*/*/*/*/picture.png"))
    return (
        *figures,
        *(Picture(title_of(path.parent.relative_to(runs).as_posix()), path, PICTURE) for path in pictures),
    )


def kept_pages(results: Path) -> tuple[tuple[str, str], ...]:
    """The pages of kept patches that are there: the task's title, and the address seen from the audit's folder."""
    there = {path.stem: path for path in (results / "kept_patches").glob("*.html")}
    return tuple((TASKS[task].title, f"../kept_patches/{there[task].name}") for task in TASKS if task in there)


def _figure(path: Path, caption: Path) -> Picture:
    title = f"Figure {path.stem.removeprefix('fig_').replace('_', ' ')}"
    if not caption.is_file():
        return Picture(title, path, "")
    lead, *further = _blocks(caption.read_text(encoding="utf-8"))
    return Picture(title, path, str(lead), tuple(further))


def _blocks(markdown: str) -> list[str | tuple[str, ...]]:
    """Paragraphs and lists of a caption, without its heading."""
    found: list[str | tuple[str, ...]] = []
    for block in markdown.replace("**", "").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
        if lines and all(line.startswith("- ") for line in lines):
            found.append(tuple(line.removeprefix("- ") for line in lines))
        elif lines:
            found.append(" ".join(lines))
    return found or [""]
