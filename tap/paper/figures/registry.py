"""Draws a figure by its name: from the tidy tables of a scale to PDF, PNG, the CSV behind it and its caption."""

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
from tap.paper.figures import all_probes, captions, insight, probe_data
from tap.paper.figures.style import files_of, styled
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.probes import files_of_probes
from tap.paper.tidy_probes import LAYERS, RECOVERY
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job


@dataclass(frozen=True)
class PaperFigure:
    """A figure that can be drawn.

    Attributes:
        data: what it shows.
        draw: draws that.
        words: its caption as far as it is the same for any data.
        kinds: probes that it shows.
    """

    data: Callable[[Evidence], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    words: tuple[str, ...]
    kinds: tuple[str, ...]


FIGURES: Final = {
    "fig_insight": PaperFigure(probe_data.insight, insight.draw, captions.INSIGHT, (LAYERS, RECOVERY)),
    "fig_all_probes": PaperFigure(probe_data.all_probes, all_probes.draw, captions.ALL_PROBES, (LAYERS,)),
}
"""Figures that can be drawn, by file stem."""


def build_figure(
    name: str, scale: str, out_folder: Path | str, root: Path | str = ".", stamp: Stamp = BY_HAND
) -> list[Path]:
    """Writes ``<name>.pdf``, ``.png``, ``.csv`` and ``.caption.md``, and a record of how they were made.

    Args:
        name: such as ``fig_insight``; the LaTeX label ``fig:insight`` is the same.
        scale: whose results are shown.
        out_folder: where the files go.
        root: the project's folder.

    Returns:
        The files.

    Raises:
        UserError: no such figure, nothing is measured of it yet, results that cannot be read or are not what their own
            records say, or a folder that cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    stem = name.replace(":", "_").replace("-", "_")
    if stem not in FIGURES:
        raise UserError(f"figure '{name}': cannot be drawn; choose one of {', '.join(FIGURES)}")
    known, tasks = FIGURES[stem], load_scale(scale, root=root).tasks
    read = [path for task in tasks for path in files_of_probes(scale, task, root)]
    evidence = Evidence(scale, root)
    frame = known.data(evidence)
    if frame.empty:
        raise UserError(f"figure '{stem}': nothing of it is measured at scale '{scale}' yet; run the workflow first")
    with styled():
        figure = known.draw(frame)
        if scale == "smoke":
            figure.suptitle(SMOKE_NOTE, fontsize=7)
        contents = files_of(figure)
    contents[".csv"] = frame.to_csv(index=False, lineterminator="\n").encode()
    contents[".caption.md"] = captions.caption(stem, known.words, known.kinds, evidence).encode()
    files = [atomic_write(Path(out_folder) / f"{stem}{suffix}", content) for suffix, content in contents.items()]
    record_job(
        Path(out_folder) / f"{stem}{RECORD_SUFFIX}",
        stamp,
        inputs=read,
        outputs=files,
        started=started,
        root=root,
    )
    return files
