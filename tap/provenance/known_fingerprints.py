"""Fingerprints that were found out before, kept beside the project until any line of its code changes.

Following names through the package costs a quarter of a second a job and seconds for a workflow, each time anew. What
was found holds for the exact bytes of all modules and for the Python that parsed them, so both are part of the key.
`tap verify` does not look here: it would believe whoever can write to the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tap.provenance.files import atomic_write

KEPT: Final = Path(".tap") / "fingerprints.json"
_asked: dict[str, bool] = {"use": True}


class KnownFingerprints:
    """What is known of a package as it is on disk.

    Args:
        files: the package's modules; all of them are read.
        root: folder that holds the package; nothing is kept where it cannot be written to, as in an installed package.
    """

    def __init__(self, files: Iterable[str], root: Path) -> None:
        digest = hashlib.sha256(sys.version.encode())
        for file in sorted(files):
            content = Path(file).read_bytes()
            digest.update(f"{os.path.relpath(file, root)} {len(content)}\n".encode())
            digest.update(content)
        self._code = digest.hexdigest()
        self._path = root / KEPT
        self._found = _read(self._path, self._code)

    def get(self, key: str) -> str | None:
        """A fingerprint that was found before; None if there is none, or if they are to be found out anew."""
        return self._found.get(key) if _asked["use"] else None

    def keep(self, key: str, fingerprint: str) -> None:
        """Keeps a fingerprint for later calls; of two processes that keep one at once, the last is believed."""
        self._found[key] = fingerprint
        if os.access(self._path.parent.parent, os.W_OK):
            atomic_write(self._path, json.dumps({"code": self._code, "found": self._found}), durable=False)


def find_out_anew() -> None:
    """From now on this process believes no file, and finds out each fingerprint from the code itself."""
    _asked["use"] = False


def _read(path: Path, code: str) -> dict[str, str]:
    """What is kept for some code; nothing if the file is of other code or damaged, since it can be found out again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content["found"] if isinstance(content, dict) and content.get("code") == code else {}
