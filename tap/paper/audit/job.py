"""The audit as a job: three files of one content, for programs, for people, and for a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tap.config.load import load_scale
from tap.paper.audit.audit import Alteration, Audit, make_audit
from tap.paper.audit.page import to_html
from tap.paper.audit.report import to_json, to_markdown
from tap.plan.tuning import SEARCHES
from tap.provenance.files import atomic_write
from tap.provenance.finding import Kind
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import Staleness, verify

FILES = {"audit.json": to_json, "audit.md": to_markdown, "audit.html": to_html}
READ = (
    "tables/*.csv",
    "tidy_*.csv",
    "figures/*.svg",
    "figures/*.caption.md",
    "runs/*/*/*/*/*/picture.png",
    *(f"tune/*/{search}.json" for search in SEARCHES),
)
"""What an audit judges by and shows, below the folder of its scale."""


def audit_folder(scale: str) -> Path:
    """Where a scale's audit lies, relative to the project."""
    return Path("results") / scale / "audit"


def run_audit(
    scale: str, staleness: Staleness, root: Path | str = ".", stamp: Stamp = BY_HAND
) -> tuple[Audit, list[Path]]:
    """Verifies a scale's results, audits them, and writes ``audit.json``, ``audit.md`` and ``audit.html``.

    What is wrong with the results is part of the audit, so it ends well whatever the verification finds.

    Raises:
        UserError: results or claims cannot be read, or the folder cannot be written.
    """
    started, root, settings = datetime.now(UTC), Path(root), load_scale(scale, root=root)
    folder = root / audit_folder(scale)
    own = f"{audit_folder(scale)}/"
    # Without the copies for readers: they rest on what is judged here, and may be in the making.
    verified = verify(settings, staleness, root=root, results=folder.parent)
    found = [finding for finding in verified.findings if not finding.path.startswith(own)]
    audit = make_audit(
        scale,
        root,
        [Alteration(item.path, str(item.kind), item.reason, item.record) for item in found],
        root_hash=root_hash(verified.ledger),
        replayed=verified.shown,
    )
    files = [atomic_write(folder / name, write(audit)) for name, write in FILES.items()]
    results = folder.parent
    read = [path for pattern in READ for path in sorted(results.glob(pattern))]
    edited = {root / item.path for item in found if item.kind == Kind.EDITED}  # shown, and nothing to build on
    record_job(
        folder / f"audit{RECORD_SUFFIX}",
        stamp,
        inputs=[path for path in read if path not in edited],
        outputs=files,
        started=started,
        root=root,
    )
    return audit, files
