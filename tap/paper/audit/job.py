"""The audit as a job: three files of one content, for programs, for people, and for a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tap.config.load import load_scale
from tap.paper.audit.audit import Audit, make_audit
from tap.paper.audit.page import to_html
from tap.paper.audit.report import to_json, to_markdown
from tap.provenance.behind import TABULATING, code_of_audit
from tap.provenance.files import atomic_write
from tap.provenance.record import RECORD_SUFFIX, record_job

FILES = {"audit.json": to_json, "audit.md": to_markdown, "audit.html": to_html}


def audit_folder(scale: str) -> Path:
    """Where a scale's audit lies, relative to the project."""
    return Path("results") / scale / "audit"


def run_audit(scale: str, root: Path | str = ".") -> tuple[Audit, list[Path]]:
    """Audits a scale and writes ``audit.json``, ``audit.md`` and ``audit.html``.

    Raises:
        UserError: results or claims cannot be read, or the folder cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    audit = make_audit(scale, root)
    folder = root / audit_folder(scale)
    files = [atomic_write(folder / name, write(audit)) for name, write in FILES.items()]
    results = folder.parent
    record_job(
        folder / f"audit{RECORD_SUFFIX}",
        "audit",
        parameters={"main_rate": load_scale(scale, root=root).main_rate},
        inputs=[*sorted(results.glob("tables/*.csv")), *sorted(results.glob("tidy_*.csv"))],
        outputs=files,
        started=started,
        fingerprint=code_of_audit(),
        libraries=(*TABULATING, "jinja2"),
        root=root,
    )
    return audit, files
