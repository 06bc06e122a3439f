"""A project as the code of tables expects it, around results that lie elsewhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tap.provenance.ledger import PROFILES, Ledger


@contextmanager
def as_project(scale: str, ledger: Ledger) -> Iterator[Ledger]:
    """The ledger with its results below ``results/<scale>`` of its root.

    If they were read from another folder, that is a copy of them, for as long as the context lasts.

    Args:
        scale: whose results.
        ledger: what `read_ledger` gave.
    """
    own = f"results/{scale}"
    if own not in ledger.outside:
        yield ledger
        return
    with tempfile.TemporaryDirectory(prefix="tap-") as folder:
        root = Path(folder)
        for path in ledger.root.resolve().iterdir():
            if path.name != "results" and not path.name.startswith("."):
                os.symlink(path, root / path.name)
        shutil.copytree(ledger.outside[own], root / own)
        profiles = f"results/{PROFILES}"
        if ledger.outside[profiles].is_dir():
            shutil.move(root / own / PROFILES, root / profiles)
        outside = {name: path.absolute() for name, path in ledger.outside.items() if name not in (own, profiles)}
        yield replace(ledger, root=root, outside=outside)
