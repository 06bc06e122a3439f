"""The audit as a job: three files of one content, for programs, for people, and for a browser."""

from __future__ import annotations

from pathlib import Path

from tap.paper.audit.audit import Audit, make_audit
from tap.paper.audit.page import to_html
from tap.paper.audit.report import to_json, to_markdown
from tap.provenance.files import atomic_write

FILES = {"audit.json": to_json, "audit.md": to_markdown, "audit.html": to_html}


def audit_folder(scale: str) -> Path:
    """Where a scale's audit lies, relative to the project."""
    return Path("results") / scale / "audit"


def run_audit(scale: str, root: Path | str = ".") -> tuple[Audit, list[Path]]:
    """Audits a scale and writes ``audit.json``, ``audit.md`` and ``audit.html``.

    Raises:
        UserError: results or claims cannot be read, or the folder cannot be written.
    """
    root = Path(root)
    audit = make_audit(scale, root)
    folder = root / audit_folder(scale)
    return audit, [atomic_write(folder / name, write(audit)) for name, write in FILES.items()]
