"""`fig:method`: TAP as a whole, from the patches of an image to the head of its task."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pandas as pd

from tap.paper.evidence import Evidence
from tap.paper.figures.diagram import Arrow, Box, drawing, elements
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.style import TEXT_WIDTH
from tap.task_facts import TASKS

READS = "settings"

_WORDS = (
    "A drawing, nothing in it is measured; the pruning blocks are those of the settings. Of the registers, one per "
    "task, the task's own alone runs through the encoder (solid). At each pruning block its query ranks the patches, "
    "its share sets how many of the removals that are left fall to this block, and its scale is kept for the readout. "
    "Removed patches keep a pointer to their stand-in and their offset outside the encoder; a dense head gets them "
    "back, classification does not ask for them.",
)
_BLUE, _GREY, _ORANGE = "#DCEBF7", "#F2F2F2", "#FBE6D0"
_STEP = 4.3


def data(evidence: Evidence) -> pd.DataFrame:
    """Boxes and arrows, with a pruning step for each pruning block of the scale's settings."""
    layers, active = evidence.settings.controller.layers, next(iter(TASKS))
    boxes = [Box("patches", "patches\nof an image", 0.0, 1.6, 1.4, 0.7)]
    boxes += [
        Box(task, f"register\n{facts.title.lower()}", 0.0, 4.6 - 0.9 * place, 1.7, 0.7, *_look(task == active))
        for place, (task, facts) in enumerate(TASKS.items())
    ]
    boxes.append(
        Box("store", "kept outside: pointers, offsets, scales", 1.6 + _STEP * len(layers) / 2, 0.1, 5.0, 0.6, _ORANGE)
    )
    arrows, state, tokens = [], active, "patches"
    for place, (before, layer) in enumerate(pairwise((0, *layers))):
        x = 2.3 + _STEP * place
        block, read, prune = f"blocks {layer}", f"register {layer}", f"prune {layer}"
        span = f"block {layer}" if layer == before + 1 else f"blocks {before + 1} to {layer}"
        boxes += [
            Box(block, span, x, 1.6, 1.6, 0.7, _GREY),
            Box(read, f"register after\nblock {layer}", x + 0.2, 4.6, 1.7, 0.7, _BLUE),
            Box(prune, "rank, keep,\nmatch", x + 2.0, 1.6, 1.4, 0.7, _ORANGE),
        ]
        arrows += [
            Arrow(state, read),
            Arrow(tokens, block),
            Arrow(block, read, style="dotted"),
            Arrow(block, prune),
            Arrow(read, prune, "query,\nshare, scale"),
            Arrow(prune, "store", "removed"),
        ]
        state, tokens = read, prune
    end = 2.3 + _STEP * len(layers)
    boxes += [
        Box("rest", "the other\nblocks", end, 1.6, 1.6, 0.7, _GREY),
        Box("head", "head", end + 2.1, 1.6, 1.1, 0.7),
        Box("recovery", "dense heads:\n$x_{stand\\text{-}in} + \\alpha\\,\\delta$", end + 2.1, 0.1, 2.2, 0.75, _ORANGE),
    ]
    arrows += [Arrow(tokens, "rest"), Arrow("rest", "head"), Arrow("store", "recovery"), Arrow("recovery", "head")]
    return elements(boxes, arrows)


def _look(active: bool) -> tuple[str, str]:
    return (_BLUE, "solid") if active else ("#FFFFFF", "dashed")


FIGURE = PaperFigure(data, partial(drawing, width=TEXT_WIDTH), _WORDS)
