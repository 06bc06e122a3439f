"""Which figures there are, known without importing matplotlib: the workflow reads this.

A figure is a file ``fig_<name>.py`` of this folder with a `FIGURE` (`tap.paper.figures.figure.PaperFigure`) and the
literal ``READS = "probes"``: the tidy tables of the probes, and what tells the floors of the dense tasks.
"""

from __future__ import annotations

from pathlib import Path

from tap.paper.listing import declared

FIGURES = tuple(declared(Path(__file__).parent, "fig_", ("probes",)))
"""File stems of all figures."""
