"""A training that is asked to end (SIGTERM: a time limit, a node that is taken away) keeps a state first.

Slurm sends the signal to every process of a job some time before it kills them. The step at hand is finished, a state
is written, and the process ends with a message; the same command then goes on from that step, with the same bits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tap.errors import UserError
from tap.provenance.orphans import ask_for_time


class Stopped(UserError):
    """The training was asked to end before it was through."""


class StopRequest:
    """Whether this process has been asked to end."""

    def __init__(self) -> None:
        self.made = False

    def _make(self, number: int, frame: FrameType | None) -> None:
        ask_for_time()  # the workflow may be at its end as well, and would take this process with it
        self.made = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Takes SIGTERM as a request, while a training runs; elsewhere than in the main thread nothing changes."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = signal.signal(signal.SIGTERM, request._make)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, before)
