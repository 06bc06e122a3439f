"""Which figures there are, known without importing matplotlib: the workflow reads this.

A figure is a file ``fig_<name>.py`` of this folder with a `FIGURE` (`tap.paper.figures.figure.PaperFigure`) and the
literal ``READS``, which says what it is made from, as a table's does: ``"probes"``, ``"rates"`` or ``"controls"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tap.paper.listing import declared

GROUPS: Final = ("probes", "rates", "controls")

_FOUND = declared(Path(__file__).parent, "fig_", GROUPS)
FIGURES = tuple(_FOUND)
"""File stems of all figures."""

FIGURES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    group: tuple(name for name, of in _FOUND.items() if of == group) for group in GROUPS
}
"""File stems by what the figures are made from."""
