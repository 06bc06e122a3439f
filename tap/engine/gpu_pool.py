"""Each job has GPUs of its own: cards are lent by locks, which the system takes back when a job ends or is killed.

Snakemake counts the cards that its jobs take (`resources: gpu`) but does not say which; without a pool two jobs of one
card each would both take the first one. The locks lie in one folder per user and machine, so that they hold over
several workflows as well, and are named by the cards' own ids, whatever the jobs' numbering is.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tap.errors import UserError
from tap.provenance.locks import hold_lock

VISIBLE = "CUDA_VISIBLE_DEVICES"
_PAUSE_S = 1.0
_SMI = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
_held: dict[str, int] = {}
"""Locks of this process, by card."""


def visible_cards() -> list[str]:
    """Ids of the cards that this process may use, in the order of their numbers; empty without a GPU.

    Asked of the driver's own tool: a look through torch would fix the numbering of this process.
    """
    try:
        found = subprocess.run(_SMI, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    by_number = dict(line.replace(" ", "").split(",", 1) for line in found.splitlines() if "," in line)
    named = os.environ.get(VISIBLE)
    if named is None:
        return list(by_number.values())
    cards = []
    for name in filter(None, (part.strip() for part in named.split(","))):
        if name.isdigit() or name.startswith("-"):
            if name not in by_number:
                break  # as CUDA reads it: nothing behind the first wrong number counts
            name = by_number[name]
        cards.append(name)
    return cards


def take_gpus(count: int, say: Callable[[str], object] = lambda text: print(text, file=sys.stderr)) -> list[str]:
    """Lends this process cards for the rest of its life, and lets CUDA see no others.

    To be called before anything has used CUDA. A process that has its cards keeps them. One that looks holds what is
    free for a moment, so another that looks just then may say that it waits, and looks again after a second.

    Args:
        count: how many.
        say: takes a line about having to wait.

    Returns:
        Ids of the cards; empty where there is no GPU.

    Raises:
        UserError: the process may use fewer cards than that.
    """
    cards = list(_held) or visible_cards()
    if not cards:
        return []
    if len(cards) < count:
        raise UserError(
            f"processes: {count} GPUs are needed and {len(cards)} may be used ({VISIBLE}: "
            f"{os.environ.get(VISIBLE, 'not set')}); lower `processes`, or start where there are more"
        )
    waited = False
    while len(_held) < count:
        taken = {card: handle for card in cards if (handle := hold_lock(_lock(card))) is not None and card not in _held}
        spare = list(taken)[count:]
        if len(taken) < count:  # all or none: two jobs that each wait for the other's would wait for ever
            spare = list(taken)
            if not waited:
                say(f"GPUs: {count} needed, and other jobs have all but {len(taken)} of {len(cards)}; waiting for them")
                waited = True
        for card in spare:
            os.close(taken.pop(card))
        _held.update(taken)
        if len(_held) < count:
            time.sleep(_PAUSE_S)
    os.environ[VISIBLE] = ",".join(_held)
    return list(_held)


def keep_through_exec() -> None:
    """Has the cards stay lent when this process becomes another program, such as a launcher."""
    for handle in _held.values():
        os.set_inheritable(handle, True)


def _lock(card: str) -> Path:
    return Path(tempfile.gettempdir()) / f"tap-gpus-{getpass.getuser()}" / f"{card}.lock"
