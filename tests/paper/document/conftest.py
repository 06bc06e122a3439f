"""A document to be made: two tables and a figure of a desk scale, as the workflow writes them."""

from __future__ import annotations

import pytest

from tap.paper.figures.build import build_figure
from tap.paper.tables.build import build_table


@pytest.fixture
def made(project):
    """The project's folder, with its tables and its figure."""
    runs = [project.add_cls(method, accuracy, seed) for seed in (0, 1) for method, accuracy in
            (("dense", 0.9), ("tap", 0.8), ("random", 0.7))]  # fmt: skip
    project.evidence(runs)
    project.profile("cls", {"tap": 1.3, "random": 1.4})
    folder = project.root / "results" / "desk"
    for name in ("tab_cls", "tab_keep_rates"):
        build_table(name, "desk", folder / "tables", project.root)
    build_figure("fig_tradeoff", "desk", folder / "figures", project.root)
    return project.root
