"""One hash over all records of a scale, short enough to be cited: no file behind a result changes without it."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Final

from tap.provenance.files import hash_files
from tap.provenance.ledger import PROFILES, Ledger

SHOWN_ON: Final = "audit"
"""Kind of the one job whose record does not count: its page shows the hash, so the hash cannot cover it."""
_FOLDERS: Final = ("results", "published")


def root_hash(ledger: Ledger) -> str:
    """Hex sha256 of the lines ``<sha256 of the record>  <its name>``, sorted by name, one for each record of a scale.

    Names start below the scale's folder, so that results and their published copy have the same hash. Every record
    names the hashes of all files that its job read and made, of the data as well, and of their records; the hash covers
    these through it. ``sha256sum`` prints the same lines.

    Args:
        ledger: the records, of which those in the scale's folder count, all but that of the audit. Profiles belong to
            machines; they count through what was made from them. Without any record it is the hash of an empty text.

    Raises:
        UserError: a record cannot be read.
    """
    names = {
        PurePosixPath(*parts[2:]).as_posix(): name
        for name, record in ledger.records.items()
        if (parts := PurePosixPath(name).parts)[0] in _FOLDERS and parts[1] != PROFILES and record.job != SHOWN_ON
    }
    places = {name: place for name, full in names.items() if (place := ledger.place(full)) is not None}
    hashes = hash_files(places.values())
    lines = [f"{hashes[places[name]]}  {name}\n" for name in sorted(places, key=str.encode)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
