"""Hashes of files, remembered by what the file system says of a file, so that thousands cost a moment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tap.provenance.files import atomic_write, hash_files

CACHE: Final = Path(".tap") / "hashes.json"


class HashCache:
    """Hashes of a project's files. A file is hashed anew if its size, times or place on the disk have changed.

    The time of the last change of a file's entry counts (``ctime``), which only the system sets: an edit that puts the
    other times back is seen as well. `tap verify` does not use this and hashes every byte.

    Args:
        root: the project's folder.
    """

    def __init__(self, root: Path | str = ".") -> None:
        self.path = Path(root) / CACHE

    def hashes(self, files: Iterable[Path]) -> dict[Path, str]:
        """Hashes of files that are there.

        Raises:
            UserError: a file cannot be read.
        """
        known: dict[str, list[object]] = _read(self.path)
        stamps = {file: _stamp(file) for file in files}
        new = [file for file, stamp in stamps.items() if known.get(str(file), [None])[:-1] != stamp]
        fresh = hash_files(new)
        entries = {str(file): [*stamps[file], digest] for file, digest in fresh.items()}
        if entries:
            kept = {name: entry for name, entry in known.items() if name in entries or Path(name).is_file()}
            atomic_write(self.path, json.dumps(kept | entries))
        return {file: fresh[file] if file in fresh else str(known[str(file)][-1]) for file in stamps}


def _stamp(file: Path) -> list[object]:
    facts = file.stat()
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def _read(path: Path) -> dict[str, list[object]]:
    """What was remembered; nothing if it is damaged, since it can be found out again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
