"""What tells one figure from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from tap.paper.evidence import Evidence


@dataclass(frozen=True)
class PaperFigure:
    """A figure that can be drawn.

    Attributes:
        data: what it shows, one line per drawn number.
        draw: draws that.
        words: its caption as far as it is the same for any data.
        kinds: probes that it shows, ``layers`` or ``recovery``; none for a figure of other results.
        pictures: columns of `data` that hold arrays; its CSV file names each by the hash of its values.
        note: a further paragraph that follows from the results and from what is shown; may be empty.
    """

    data: Callable[[Evidence], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    words: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    note: Callable[[Evidence, pd.DataFrame], str] | None = None
