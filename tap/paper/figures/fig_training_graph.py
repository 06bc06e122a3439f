"""`fig:training-graph`: what is computed at one pruning block in training, and which way its gradients go."""

from __future__ import annotations

from functools import partial

import pandas as pd

from tap.paper.evidence import Evidence
from tap.paper.figures.diagram import Arrow, Box, drawing, elements
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.style import TEXT_WIDTH

READS = "settings"

_WORDS = (
    "One pruning block in training; a drawing, nothing in it is measured. Solid: forward. The blocks after it get the "
    "tokens of the binary mask alone. Dashed: backward. The gradient of the binary mask is taken to be that of a soft "
    "mask, whose sum is held at the number of tokens that the allocation asks for; it reaches the scores and, through "
    "that sum, the allocation.",
)
_GREY, _BLUE, _ORANGE = "#F2F2F2", "#DCEBF7", "#FBE6D0"

_BOXES = (
    Box("register", "register\nat this block", -0.9, 1.0, 1.4, 0.7, _BLUE),
    Box("scores", "scores $f$", 2.2, 1.7, 1.3, 0.6, _GREY),
    Box("target", "removals asked\nfor, $Q$", 2.2, 0.3, 1.5, 0.7, _GREY),
    Box("noisy", "$z = f + $ Gumbel", 4.3, 1.7, 1.6, 0.6, _GREY),
    Box("hard", "binary mask $m_{hard}$:\n$N-R$ highest $z$", 6.8, 1.7, 2.0, 0.75, _GREY),
    Box(
        "soft",
        "soft mask $s=\\sigma((z-\\theta)/\\tau)$,\n$\\theta$ so that $\\sum s = N-Q$",
        5.6,
        0.3,
        2.8,
        0.75,
        _ORANGE,
    ),
    Box("through", "$m = sg(m_{hard}-s)+s$", 9.4, 1.0, 2.1, 0.65, _GREY),
    Box("blocks", "kept tokens\n$\\times\\, m$, later blocks", 12.0, 1.7, 1.9, 0.75, _GREY),
    Box("loss", "task loss", 12.0, 0.3, 1.3, 0.6, _GREY),
)
_ARROWS = (
    Arrow("register", "scores", "query, keys"),
    Arrow("register", "target", "share"),
    Arrow("scores", "noisy"),
    Arrow("noisy", "hard"),
    Arrow("noisy", "soft", bend=-0.12),
    Arrow("soft", "noisy", style="dashed", bend=-0.2),
    Arrow("target", "soft", bend=-0.12),
    Arrow("soft", "target", style="dashed", bend=-0.12),
    Arrow("hard", "through"),
    Arrow("soft", "through", bend=-0.1),
    Arrow("through", "soft", style="dashed", bend=-0.15),
    Arrow("through", "blocks", bend=-0.1),
    Arrow("blocks", "through", style="dashed", bend=-0.25),
    Arrow("blocks", "loss", bend=-0.15),
    Arrow("loss", "blocks", style="dashed", bend=-0.15),
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Its boxes and arrows, the same at every scale."""
    return elements(_BOXES, _ARROWS)


FIGURE = PaperFigure(data, partial(drawing, width=TEXT_WIDTH), _WORDS)
