"""Partitions of a Slurm cluster that a profile names: are there such, before anything is submitted?"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Final

from tap.errors import UserError

_PATIENCE_S: Final = 20


def refuse_unknown_partitions(asked: Mapping[str, str]) -> None:
    """Ends with the partitions that there are. Says nothing where no `sinfo` answers: submitting will fail by itself.

    Args:
        asked: what asks for a partition, in words, and its name; several names are separated by commas.

    Raises:
        UserError: a partition is not one of the cluster's.
    """
    if not asked:
        return
    try:
        answer = subprocess.run(
            ["sinfo", "--all", "--noheader", "--format=%R"], capture_output=True, text=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    known = sorted(set(answer.stdout.split()))
    if answer.returncode or not known:
        return
    for where, names in asked.items():
        for name in names.split(","):
            if name not in known:
                raise UserError(
                    f"{where}: this cluster has no partition '{name}'; it has {', '.join(known)} (`sinfo`). "
                    "Nothing was submitted"
                )
