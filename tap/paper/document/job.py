"""The document as jobs: page and LaTeX source from what is made, and a PDF of the source by whatever LaTeX there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tap.errors import UserError
from tap.paper.document.contents import files_of_parts, parts_of
from tap.paper.document.html import to_html
from tap.paper.document.latex import to_latex
from tap.provenance.files import atomic_write
from tap.provenance.publish import tables_folder
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job

PAGE, SOURCE, PDF = "paper.html", "paper.tex", "paper.pdf"
LOG: Final = ".tap/logs/{scale}/latex.log"
"""What a LaTeX that failed has said."""

COMPILERS: Final = {
    "latexmk": ("latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error", SOURCE),
    "tectonic": ("tectonic", SOURCE),
}
"""Commands that make a PDF of a source in the folder they run in, in the order of preference."""
INSTALL: Final = (
    "on Debian and Ubuntu `apt-get install --no-install-recommends latexmk texlive-latex-recommended lmodern`"
)
_REPRODUCIBLE: Final = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
"""No time of the day in the PDF, so that equal sources are equal files."""
_ERROR: Final = re.compile(r"^(?:error: .*|! .*|\S*paper\.tex:\d+: .*)$", re.MULTILINE)
"""How latexmk and tectonic begin the line that says what is wrong."""
_MISSING_FILE: Final = re.compile(r"File `[^']*\.(?:sty|cls|def|clo)' not found|Font .* not found|mktexpk")


def write_document(scale: str, root: Path | str = ".", stamp: Stamp = BY_HAND) -> list[Path]:
    """Writes ``paper.html`` and ``paper.tex`` beside the scale's tables, and a record of how they were made.

    Raises:
        UserError: no table is made yet, or a file of one cannot be read.
    """
    started, root = datetime.now(UTC), Path(root)
    results = root / "results" / scale
    read = files_of_parts(results)
    if not read:
        raise UserError(f"{results}: no table and no figure is made yet; `snakemake --config scale={scale}` makes them")
    parts, folder = parts_of(results), root / tables_folder(scale)
    files = [
        atomic_write(folder / PAGE, to_html(parts, scale)),
        atomic_write(folder / SOURCE, to_latex(parts, scale)),
    ]
    record_job(folder / f"paper{RECORD_SUFFIX}", stamp, inputs=read, outputs=files, started=started, root=root)
    return files


def write_pdf(scale: str, root: Path | str = ".", stamp: Stamp = BY_HAND) -> Path:
    """Compiles ``paper.tex`` to ``paper.pdf`` by latexmk or tectonic, and writes a record of it.

    Raises:
        UserError: the source is not made, neither program is installed, or it fails; then with its own line of what is
            wrong, and where all that it said is kept.
    """
    started, root = datetime.now(UTC), Path(root)
    folder = (root / tables_folder(scale)).resolve()
    source = folder / SOURCE
    if not source.is_file():
        raise UserError(f"{source}: is not there; `tap paper page --scale {scale}` makes it")
    command = next((words for name, words in COMPILERS.items() if shutil.which(name)), None)
    if command is None:
        raise UserError(
            f"{PDF}: needs LaTeX, and neither {' nor '.join(COMPILERS)} is installed; install one ({INSTALL}), or read "
            f"{PAGE}, which has the same content"
        )
    figures = folder.parent / "figures"
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "tables"
        place.mkdir()
        shutil.copy(source, place / SOURCE)
        if figures.is_dir():
            (Path(temporary) / "figures").symlink_to(figures)
        done = subprocess.run(
            command,
            cwd=place,
            env=os.environ | _REPRODUCIBLE,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said, made = done.stdout + done.stderr, place / PDF
        if done.returncode or not made.is_file():
            log = atomic_write(root / LOG.format(scale=scale), said)
            raise UserError(f"{PDF}: {command[0]} failed on {source}: {_reason(said)}; all that it said is in {log}")
        path = atomic_write(folder / PDF, made.read_bytes())
    own = root / tables_folder(scale)
    record_job(
        own / f"paper_pdf{RECORD_SUFFIX}",
        stamp,
        inputs=[own / SOURCE, *sorted((own.parent / "figures").glob("*.pdf"))],
        outputs=[own / PDF],
        started=started,
        root=root,
    )
    return path


def _reason(said: str) -> str:
    """The line that says what is wrong, and what mends it if that is known."""
    found = _ERROR.search(said)
    line = found.group(0).strip() if found else (said.strip().splitlines() or ["it said nothing"])[-1].strip()
    return f"{line}; a part of LaTeX is not installed: {INSTALL}" if _MISSING_FILE.search(said) else line
