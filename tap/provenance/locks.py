"""One process at a time, by locks that the kernel gives back when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tap.errors import UserError


def hold_lock(path: Path | str) -> int | None:
    """Takes a lock for the rest of this process's life, without waiting. Children that it starts do not inherit it.

    Returns:
        An open file descriptor, whose closing gives the lock back, or None where another process holds it.

    Raises:
        UserError: the lock file cannot be made.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose a writable folder") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_held(path: Path | str) -> bool:
    """Whether a process holds a lock at this moment."""
    if not Path(path).is_file():
        return False
    handle = hold_lock(path)
    if handle is not None:
        os.close(handle)
    return handle is None


@contextmanager
def waiting_lock(path: Path | str, on_wait: Callable[[], object]) -> Iterator[bool]:
    """Holds a lock inside a `with` block, after waiting for whoever has it.

    Args:
        path: the lock file; stays behind, empty.
        on_wait: called once if another process has the lock, before waiting for it.

    Yields:
        Whether it had to wait.

    Raises:
        UserError: the lock file cannot be made.
    """
    handle = hold_lock(path)
    waited = handle is None
    if handle is None:
        on_wait()
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield waited
    finally:
        os.close(handle)
