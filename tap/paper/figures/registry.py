"""Draws a figure by its name: from the tidy tables of a scale to PDF, PNG and the CSV behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from tap.config.load import load_scale
from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.figures import all_probes, insight, probe_data
from tap.paper.figures.style import files_of, styled
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tidy_probes import tidy_probes_path
from tap.provenance.behind import DRAWING, TABULATING, code_of_figures
from tap.provenance.files import atomic_write
from tap.provenance.record import RECORD_SUFFIX, record_job


@dataclass(frozen=True)
class PaperFigure:
    """A figure that can be drawn.

    Attributes:
        tidy: tidy tables that it reads of each task, by scale and task.
        data: what it shows.
        draw: draws that.
    """

    tidy: tuple[Callable[[str, str], Path], ...]
    data: Callable[[Evidence], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]


FIGURES: Final = {
    "fig_insight": PaperFigure((tidy_probes_path,), probe_data.insight, insight.draw),
    "fig_all_probes": PaperFigure((tidy_probes_path,), probe_data.all_probes, all_probes.draw),
}
"""Figures that can be drawn, by file stem."""


def build_figure(name: str, scale: str, out_folder: Path | str, root: Path | str = ".") -> list[Path]:
    """Writes ``<name>.pdf``, ``.png`` and ``.csv``, and a record of how they were made.

    Args:
        name: such as ``fig_insight``; the LaTeX label ``fig:insight`` is the same.
        scale: whose results are shown.
        out_folder: where the files go.
        root: the project's folder.

    Returns:
        The files.

    Raises:
        UserError: no such figure, nothing is measured of it yet, or a folder that cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    stem = name.replace(":", "_").replace("-", "_")
    if stem not in FIGURES:
        raise UserError(f"figure '{name}': cannot be drawn; choose one of {', '.join(FIGURES)}")
    known, tasks = FIGURES[stem], load_scale(scale, root=root).tasks
    tidy = [path for task in tasks for of in known.tidy if (path := root / of(scale, task)).is_file()]
    frame = known.data(Evidence(scale, root))
    if frame.empty:
        raise UserError(f"figure '{stem}': nothing of it is measured at scale '{scale}' yet; run the workflow first")
    with styled():
        figure = known.draw(frame)
        if scale == "smoke":
            figure.suptitle(SMOKE_NOTE, fontsize=7)
        contents = files_of(figure)
    contents[".csv"] = frame.to_csv(index=False, lineterminator="\n").encode()
    files = [atomic_write(Path(out_folder) / f"{stem}{suffix}", content) for suffix, content in contents.items()]
    record_job(
        Path(out_folder) / f"{stem}{RECORD_SUFFIX}",
        "figure",
        parameters={"figure": stem, "scale": scale},
        inputs=tidy,
        outputs=files,
        started=started,
        fingerprint=code_of_figures(),
        libraries=(*TABULATING, *DRAWING),
        root=root,
    )
    return files
