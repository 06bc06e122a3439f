"""One process at a time, by locks that the kernel gives back when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tap.errors import UserError
from tap.provenance.files import writing


def hold_lock(path: Path | str) -> int | None:
    """Takes a lock for the rest of this process's life, without waiting. Children that it starts do not inherit it.

    Returns:
        An open file descriptor, whose closing gives the lock back, or None where another process holds it.

    Raises:
        UserError: the lock file cannot be made, or its file system has no locks.
    """
    path = Path(path)
    handle = _open(path)
    if _take(path, handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return handle
    os.close(handle)
    return None


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
        UserError: the lock file cannot be made, or its file system has no locks.
    """
    handle = hold_lock(path)
    waited = handle is None
    if handle is None:
        on_wait()
        handle = _open(Path(path))
        _take(path, handle, fcntl.LOCK_EX)
    try:
        yield waited
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _take(path: Path | str, handle: int, how: int) -> bool:
    """Whether the lock is ours now; False where another process has it and nobody waits.

    Raises:
        UserError: the file system has no locks.
    """
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(handle)
        raise UserError(
            f"{path}: this file system has no locks ({error.strerror}), and without them two processes could write the "
            "same files; put the project on a local disk, or have the network disk mounted with locks (NFS: version 4)"
        ) from error
    return True
