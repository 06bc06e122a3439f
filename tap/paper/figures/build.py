"""Draws a figure by its name: from the results of a scale to PDF, PNG, the CSV behind it and its caption."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.figures.captions import caption
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.names import FIGURES, GROUPS
from tap.paper.figures.style import files_of, styled
from tap.paper.listing import stem_of
from tap.paper.tables.build import there_behind
from tap.paper.tables.caption import SMOKE_NOTE
from tap.plan.growth import GROWTH
from tap.plan.profiles import profiles_in_use
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job
from tap.tasks.picture_files import digest_of


def load_figure(name: str) -> PaperFigure:
    """The figure called so (``fig_insight``; the LaTeX label ``fig:insight`` is the same).

    Raises:
        UserError: there is none; the message names all, the nearest first.
    """
    return import_module(f"tap.paper.figures.{stem_of('figure', name, FIGURES)}").FIGURE


def render_figure(name: str, evidence: Evidence) -> dict[str, bytes]:
    """Contents of a figure's files by suffix, a pure function of the results: nothing is written.

    A verification that draws figures anew compares these bytes with those of the files.

    Args:
        name: as for `build_figure`.
        evidence: the results, such as ``Evidence("desk", root)``.

    Raises:
        UserError: as `build_figure`, but for writing.
    """
    stem, known = stem_of("figure", name, FIGURES), load_figure(name)
    frame = known.data(evidence)
    if frame.empty and GROUPS[stem] in ("probes", "profiles"):
        raise UserError(
            f"figure '{stem}': nothing of it is measured at scale '{evidence.scale}' yet; run the workflow first"
        )
    with styled():
        figure = known.draw(frame)
        if evidence.scale == "smoke" and GROUPS[stem] != "settings":
            figure.suptitle(SMOKE_NOTE, fontsize=7)
        contents = files_of(figure)
    note = "" if known.note is None else known.note(evidence, frame)
    words = (*known.words, *([note] if note else []))
    named = {column: frame[column].map(digest_of, na_action="ignore") for column in known.pictures}
    contents[".csv"] = frame.assign(**named).to_csv(index=False, lineterminator="\n").encode()
    contents[".caption.md"] = caption(stem, words, known.kinds, evidence).encode()
    return contents


def build_figure(
    name: str, scale: str, out_folder: Path | str, root: Path | str = ".", stamp: Stamp = BY_HAND
) -> list[Path]:
    """Writes ``<name>.pdf``, ``.png``, ``.svg``, ``.csv`` and ``.caption.md``, and a record of how they were made.

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
    stem, evidence = stem_of("figure", name, FIGURES), Evidence(scale, root)
    if GROUPS[stem] == "profiles":
        read = [root / path for path in profiles_in_use(evidence.settings, [GROWTH], root)]
    else:
        tasks = list(evidence.settings.tasks)
        read = there_behind(GROUPS[stem], evidence, tasks)
        if GROUPS[stem] == "rates":
            read += [root / path for path in profiles_in_use(evidence.settings, tasks, root)]
    contents = render_figure(stem, evidence)
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
