"""What can be wrong with a file, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What is wrong with a file."""

    EDITED = "edited"
    MISSING = "missing"
    STALE = "stale"
    UNKNOWN = "unknown"


MEND: Final[dict[Kind, str]] = {
    Kind.EDITED: "take back what the job made, or have snakemake make it anew",
    Kind.MISSING: "snakemake makes it anew, or `tap restore --bundle FILE` brings it back",
    Kind.STALE: "snakemake makes it anew (after a clone: `tap restore` first)",
    Kind.UNKNOWN: "delete it, or have the workflow make it (data: `tap data prepare` writes their record)",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        path: the file, as records call it.
        kind: what is wrong with it.
        reason: why, in words.
        record: the record that is concerned; empty for a file without one.
    """

    path: str
    kind: Kind
    reason: str
    record: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.reason}"
