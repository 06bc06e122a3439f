"""What the audit says in words that a stranger knows: data in the place of the paper's, runs by name, captions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tap.method_facts import read_methods
from tap.paper.evidence import names_of_rows
from tap.paper.tables.caption import DATASETS
from tap.task_facts import TASKS

_PAPER: Final = {"cls": "imagenet", "seg": "ade20k", "det": "coco"}
"""Data set of the paper's results of each task."""
_STAGES: Final = {"mae": "MAE pre-training"}
_PROBES: Final = {"layers": "Probe of every block", "recovery": "Probe of the recovery endpoints"}
PICTURE: Final = "Validation images with their labels, what the model says of them, and the patches that it kept."


def stand_ins(used: Iterable[tuple[str, str]]) -> str:
    """What was measured in the place of the paper's data, as the end of a sentence; empty where it is the same.

    Args:
        used: (task, configured name of its data set).
    """
    of_data: dict[str, list[str]] = {}
    for task, name in used:
        if task in _PAPER and name != _PAPER[task]:
            of_data.setdefault(DATASETS.get(name, name), []).append(DATASETS[_PAPER[task]])
    parts = [f"{ours} in the place of {' and '.join(theirs)}" for ours, theirs in of_data.items()]
    return f", with {' and '.join(parts)}" if parts else ""


def title_of(link: str) -> str:
    """A run or probe in words: ``cls/tap/r0.50/main/s0`` is TAP-J on classification; other ids stay as they are."""
    parts = link.split("/")
    if parts[0] == "probes" and len(parts) == 3:
        return f"{_PROBES.get(parts[2], parts[2])}, {_task(parts[1])}"
    if len(parts) != 5 or parts[0] not in TASKS:
        return link
    task, method, rate, variant, seed = parts
    own = {name: facts.row.title for name, facts in read_methods().items()}
    name = (own | names_of_rows() | _STAGES).get(method, method)
    words = [f"{name}, {_task(task)}"]
    words += [f"keep rate {float(rate.removeprefix('r')):g}"] if rate != "r1.00" else []
    words += [variant.replace("_", " ").replace("-", " ")] if variant != "main" else []
    return ", ".join([*words, f"seed {seed.removeprefix('s')}"])


def _task(name: str) -> str:
    return TASKS[name].title.lower() if name in TASKS else name


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
