"""Which figures there are, known without importing matplotlib: the workflow reads this.

A figure is a file ``fig_<name>.py`` of this folder with a `FIGURE` (`tap.paper.figures.figure.PaperFigure`) and the
literal ``READS``, what it is made from:

* ``"probes"``: the tidy tables of the probes, and what tells the floors of the dense tasks;
* ``"profiles"``: the growth of a machine, without which it cannot be drawn.
* ``"rates"`` and ``"controls"``: what tables of these groups are made from;
* ``"pictures"``: an image of each task under the methods of the paper's figure, and the main tables' tidy tables, which
  tell whose register did not learn;
* ``"settings"``: no result, as a drawing of the method.
"""

from __future__ import annotations

from pathlib import Path

from tap.paper.listing import declared

GROUPS = declared(Path(__file__).parent, "fig_", ("probes", "profiles", "rates", "controls", "pictures", "settings"))
"""What each figure is made from, by file stem."""
FIGURES = tuple(GROUPS)
"""File stems of all figures."""


def figures_of(group: str) -> tuple[str, ...]:
    """File stems of the figures that are made from the same."""
    return tuple(name for name, known in GROUPS.items() if known == group)
