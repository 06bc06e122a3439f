"""The commit that code is at, where a repository says so: a hint for a replay, which finds it by its fingerprint."""

from __future__ import annotations

import subprocess
from functools import cache

from tap.provenance.fingerprint import PACKAGE, SOURCES


@cache
def commit_now() -> str | None:
    """The commit of the package as it is; None if it is in no git repository, or was edited since."""
    changed = _git("status", "--porcelain", "--untracked-files=all", "--", PACKAGE)
    return _git("rev-parse", "HEAD") if changed == "" else None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(SOURCES), *arguments], capture_output=True, text=True)
    except OSError:  # no git here
        return None
    return done.stdout.strip() if done.returncode == 0 else None
