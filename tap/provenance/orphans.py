"""A job ends with the workflow, or the launcher of several processes, that started it.

`kill -9` of Snakemake ends Snakemake alone: the shells and jobs that it started would go on, and write beside those of
the next start. So each job watches the process that the workflow names, and ends at once, by the same signal, when that
is gone. The processes of one training watch their launcher in the same way, which cannot end them when it is killed
itself. Files appear by rename and trainings resume, so nothing is half done then.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time

VARIABLE = "TAP_WORKFLOW_PROCESS"
"""Environment variable with the number of the process that the workflow runs in."""

LAUNCHER = "TAP_LAUNCHER_PROCESS"
"""The same of the process that starts those of one training."""

GRACE_S = 25.0
"""Seconds that a process which has been asked to end has for its last state, when the workflow is gone as well."""

_PAUSE_S = 0.5
_ending = threading.Event()


def ask_for_time() -> None:
    """Says that this process has been asked to end and does so as soon as its work is safe."""
    _ending.set()


def end_with_workflow() -> None:
    """Has this process end when the workflow or the launcher that started it does; nothing where none did.

    A `torchrun` that a person has started, on each of several nodes, is the parent of its processes.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        os.environ.setdefault(LAUNCHER, str(os.getppid()))  # for loading processes as well
    for number in filter(str.isdigit, (os.environ.get(name, "") for name in (VARIABLE, LAUNCHER))):
        threading.Thread(target=_end_after, args=(int(number),), daemon=True, name="end-with-workflow").start()


def _end_after(process: int) -> None:
    _wait_for_end(process)
    if _ending.is_set():
        time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_end(process: int) -> None:
    """Returns when a process has ended. A process that has ended and that nobody has asked for counts as ended."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # no Linux, or an old one
        while is_alive(process):
            time.sleep(_PAUSE_S)
        return
    select.select([handle], [], [])


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
