"""`fig:pointer-chain`: how a removed patch is given back when its stand-in was removed later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import pandas as pd

from tap.config.methods import TAP
from tap.paper.evidence import Evidence
from tap.paper.figures.diagram import Arrow, Box, drawing, elements
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.points import marks
from tap.paper.figures.style import COLUMN_WIDTH
from tap.studies.pictured import Pictured
from tap.task_facts import DENSE_TASKS, TASKS

READS = "pictures"

_WORDS = (
    "Patch i leaves the encoder at a block; its stand-in leaves at a later one, where another patch stands in for it, "
    "and so on until the one that is retained. At the readout, i is the state of that one, where the chain ends, plus "
    "the share that the register gave at the first block of the offset stored there. Later offsets are not added.",
)
_KEPT, _GONE, _BACK = "#DCEBF7", "#FFFFFF", "#FBE6D0"
_LETTERS: Final = "ijklmnopqrst"
_ACROSS, _DOWN, _WIDE = 2.5, 1.15, 1.35


@dataclass(frozen=True)
class _Chain:
    """What is drawn of a chain, in the words of its boxes.

    Attributes:
        patches: names of its patches, from the removed one to the retained one.
        blocks: at which each but the last is removed.
        pointers: what stands at the arrow from each to its stand-in.
        offset: what stands at the arrow from the first to the readout.
        back: what the first is given back as.
    """

    patches: tuple[str, ...]
    blocks: tuple[str, ...]
    pointers: tuple[str, ...]
    offset: str
    back: str


_SYMBOLS: Final = _Chain(
    ("$i$", "$j$", "$k$"),
    ("block $a$", "block $b$"),
    ("$\\pi(i)$", "$\\pi(j)$"),
    "$\\delta_i = x_i - x_j$, stored at $a$",
    "$\\hat{x}_i = x_k + \\alpha^{(a)} \\delta_i$",
)
"""The chain where no pass has been looked at."""


def data(evidence: Evidence) -> pd.DataFrame:
    """Boxes and arrows of the longest chain of TAP-J's pass over an image, or of one in symbols."""
    found = _measured(evidence)
    if found is None:
        return _drawn(_SYMBOLS).assign(runs="")
    _, pictured, run = found
    return _drawn(_numbers(pictured)).assign(runs=run)


def _measured(evidence: Evidence) -> tuple[str, Pictured, str] | None:
    """The first dense task with pointers, its image, and the run whose pass has stored them."""
    for task in DENSE_TASKS:
        pictured = evidence.pictured(task) if task in evidence.settings.tasks else None
        if pictured is not None and pictured.pointers is not None and pictured.pointers.longest_chain:
            return task, pictured, next(one.run for one in pictured.methods if one.method == TAP)
    return None


def _numbers(pictured: Pictured) -> _Chain:
    """The longest chain of an image with its positions, scale and offset."""
    pointers = pictured.pointers
    assert pointers is not None
    columns, chain = pictured.methods[0].kept.shape[1], pointers.longest_chain
    letters = _LETTERS[: len(chain)]
    first, last, layer = chain[0], letters[-1], int(pointers.removed_at[chain[0]])
    alpha = pointers.scales[list(pointers.layers).index(layer)]
    return _Chain(
        tuple(f"${letter}$ {_position(patch, columns)}" for letter, patch in zip(letters, chain, strict=True)),
        tuple(f"block {pointers.removed_at[patch]}" for patch in chain[:-1]),
        tuple(f"$\\pi({letter})$" for letter in letters[:-1]),
        f"$\\Vert\\delta_i\\Vert = {pointers.offset[first]:.2f}$, stored at block {layer}",
        f"$\\hat{{x}}_i = x_{last} + {alpha:.3f}\\,\\delta_i$",
    )


def _position(patch: int, columns: int) -> str:
    """Row and column from 1."""
    return f"({patch // columns + 1}, {patch % columns + 1})"


def _drawn(chain: _Chain) -> pd.DataFrame:
    """A column for each block of the chain, and one for the readout; a step down for each pointer."""
    links = len(chain.blocks)
    top, end = _DOWN * links, _ACROSS * links
    boxes, arrows = [Box("above", "", 0.0, top + 1.0, _WIDE, 0.3, style="none")], []  # room for a line of the scale's
    for number, (block, pointer) in enumerate(zip(chain.blocks, chain.pointers, strict=True)):
        x, y = _ACROSS * number, top - _DOWN * number
        gone, kept = f"removed {number}", f"kept {number}"
        boxes += [
            Box(f"head {number}", block, x, top + 0.65, _WIDE, 0.4, style="none"),
            Box(gone, f"{chain.patches[number]}\nremoved", x, y, _WIDE, 0.55, _GONE, "dashed"),
            Box(kept, f"{chain.patches[number + 1]}\nkept", x, y - _DOWN, _WIDE, 0.55, _KEPT),
        ]
        arrows.append(Arrow(gone, kept, pointer))
        if number:
            arrows.append(Arrow(f"kept {number - 1}", gone, style="dotted"))
    boxes += [
        Box("head", "readout", end, top + 0.65, _WIDE, 0.4, style="none"),
        Box("end", chain.patches[-1], end, 0.0, _WIDE, 0.55, _KEPT),
        Box("back", chain.back, end, top, 1.9, 0.55, _BACK),
    ]
    arrows += [
        Arrow(f"kept {links - 1}", "end", style="dotted"),
        Arrow("end", "back", "end of\nthe chain"),
        Arrow("removed 0", "back", chain.offset),
    ]
    return elements(boxes, arrows)


def _note(evidence: Evidence, frame: pd.DataFrame) -> str:
    """Whose pass it is."""
    found = _measured(evidence)
    if found is None:
        return "A chain in symbols: no pass of a trained TAP-J with recovery has been looked at yet."
    task, pictured, run = found
    grid = " x ".join(map(str, pictured.methods[0].kept.shape))
    said = (
        f"The longest chain of the pass of {run} over image {pictured.number} ({TASKS[task].title.lower()}); of equal "
        f"ones that of the first patch. Positions are row and column in the grid of {grid} patches."
    )
    return f"{said} {marks(evidence, frame)}".strip()


FIGURE = PaperFigure(data, partial(drawing, width=COLUMN_WIDTH), _WORDS, note=_note)
