"""Files that are either complete or absent, and their hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tap.errors import UserError

_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SYSTEM_ERROR = re.compile(r"\[Errno (\d+)\]|\(os error (\d+)\)")
"""How the system's errors look within those of shutil (several in one), and of writers in Rust such as safetensors."""
_TORN = re.compile(r"\.(?P<stem>.+)\.[0-9a-f]{8}\.tmp(?P<suffix>\.[^.]*)?")


def atomic_write(path: str | Path, content: bytes | str | Callable[[Path], object], *, durable: bool = True) -> Path:
    """Puts a whole file in place, or leaves what was there: a kill at any moment never shows a part of it.

    The content goes to a temporary file of the same folder, is flushed to the disk and then renamed over ``path``.

    Args:
        path: the file to make; missing folders above it are made.
        content: the bytes, the text (stored as UTF-8), or a function that writes the temporary file whose path it gets.
            The temporary file ends in the suffix of ``path``, for writers that go by it, and must stay that one file.
        durable: whether to wait for the disk; files that are checked whenever they are used can do without.

    Returns:
        ``path``.

    Raises:
        UserError: the folder cannot be made or written to, the path is a folder, or the disk is full.
    """
    path = Path(path)
    temporary = path.parent / f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = temporary.stat().st_mode
    try:
        with writing(path):
            if callable(content):
                content(temporary)
            else:
                temporary.write_bytes(content.encode() if isinstance(content, str) else content)
            temporary.chmod(mode)  # some writers replace the file by one that only its owner may read
            if durable:
                _sync(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync(path.parent)
    return path


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Says which file or folder it was that could not be written, and what to do.

    Raises:
        UserError: in place of the system's error, also where a library wrote and has an error type of its own.
    """
    try:
        yield
    except Exception as error:
        found = _SYSTEM_ERROR.search(str(error))
        if isinstance(error, OSError) and (error.errno is not None or found is None):
            raise unwritable(path, error) from error
        if found is None:
            raise
        number = int(found[1] or found[2])
        raise unwritable(path, OSError(number, os.strerror(number))) from error


def make_folder(path: str | Path) -> Path:
    """Makes a folder and those above it, where they are not there.

    Raises:
        UserError: it cannot be made.
    """
    with writing(path):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def is_full(error: OSError) -> bool:
    """Whether an error says that the disk, a quota or the largest size of a file is reached."""
    return error.errno in _FULL


def unwritable(path: str | Path, error: OSError) -> UserError:
    """What to tell a person whose file or folder cannot be written."""
    reason = error.strerror or str(error)
    if is_full(error):
        return UserError(
            f"{path}: cannot be written, the disk is full ({reason}); make room and give the same command again. What "
            "was there before is still there"
        )
    return UserError(f"{path}: cannot be written ({reason}); choose a writable folder with free space")


def remove_torn(paths: Iterable[str | Path]) -> None:
    """Removes the temporary files that killed writers of `paths` left. Nobody else may be writing them now."""
    names: dict[Path, set[str]] = {}
    for path in map(Path, paths):
        names.setdefault(path.parent, set()).add(path.name)
    for folder, wanted in names.items():
        for torn in folder.glob(".*.tmp*"):
            match = _TORN.fullmatch(torn.name)
            if match and match["stem"] + (match["suffix"] or "") in wanted:
                torn.unlink(missing_ok=True)


def sha256_file(path: str | Path) -> str:
    """Hex sha256 of a file, read in pieces.

    Raises:
        UserError: the file is missing or cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); check that the file is there and readable"
        ) from error
    return digest.hexdigest()


def hash_files(paths: Iterable[Path]) -> dict[Path, str]:
    """`sha256_file` of many files, several at a time: hashing lets go of the interpreter."""
    several = list(paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(several, pool.map(sha256_file, several), strict=True))


def _sync(path: Path) -> None:
    """Flushes a file or a folder's entries to the disk, so that a rename is not ahead of what it names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
