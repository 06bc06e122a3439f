"""`fig:pointer-chain`: how a removed patch is given back when its stand-in was removed later."""

from __future__ import annotations

from functools import partial

import pandas as pd

from tap.paper.evidence import Evidence
from tap.paper.figures.diagram import Arrow, Box, drawing, elements
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.style import COLUMN_WIDTH

READS = "settings"

_WORDS = (
    "A drawing, nothing in it is measured. Patch i leaves the encoder at block a; its stand-in j leaves at a later "
    "block b, where k stands in for it. At the readout, i is the state of k, where the chain ends, plus the share that "
    "the register gave at block a of the offset stored there. The offset of j at block b is not added.",
)
_KEPT, _GONE = "#DCEBF7", "#FFFFFF"

_BOXES = (
    Box("first", "block $a$", 0.0, 3.0, 1.2, 0.4, style="none"),
    Box("second", "block $b$", 2.4, 3.0, 1.2, 0.4, style="none"),
    Box("read", "readout", 4.8, 3.0, 1.2, 0.4, style="none"),
    Box("i", "$i$ removed", 0.0, 2.4, 1.2, 0.5, _GONE, "dashed"),
    Box("j", "$j$ kept", 0.0, 1.3, 1.2, 0.5, _KEPT),
    Box("j later", "$j$ removed", 2.4, 1.3, 1.2, 0.5, _GONE, "dashed"),
    Box("k", "$k$ kept", 2.4, 0.2, 1.2, 0.5, _KEPT),
    Box("k read", "$k$", 4.8, 0.2, 1.2, 0.5, _KEPT),
    Box("back", "$\\hat{x}_i = x_k + \\alpha^{(a)} \\delta_i$", 4.8, 2.4, 1.9, 0.55, "#FBE6D0"),
)
_ARROWS = (
    Arrow("i", "j", "$\\pi(i)$"),
    Arrow("j", "j later", style="dotted"),
    Arrow("j later", "k", "$\\pi(j)$"),
    Arrow("k", "k read", style="dotted"),
    Arrow("k read", "back", "end of\nthe chain"),
    Arrow("i", "back", "$\\delta_i = x_i - x_j$, stored at $a$"),
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Its boxes and arrows, the same at every scale."""
    return elements(_BOXES, _ARROWS)


FIGURE = PaperFigure(data, partial(drawing, width=COLUMN_WIDTH), _WORDS)
