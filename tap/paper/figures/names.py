"""Names of the figures. Imports nothing, so that the workflow can read it."""

from __future__ import annotations

from typing import Final

FIGURES: Final = ("fig_insight", "fig_all_probes")
"""Functions of the tidy tables of the probes."""
