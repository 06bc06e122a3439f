"""Tables and figures as their folders list them: one file each, whose literal ``READS`` says what it is made from.

The files are read, not imported: a workflow that starts must not wait for pandas, matplotlib or torch.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from tap.errors import UserError
from tap.provenance.record import RECORD_SUFFIX


def declared(folder: Path, prefix: str, groups: Iterable[str]) -> dict[str, str]:
    """What every file of a folder needs.

    Args:
        folder: where the files are.
        prefix: how their names start.
        groups: what can be needed.

    Returns:
        The group that each file names, by the file's stem, in alphabetical order.

    Raises:
        UserError: a file does not have the literal, or names another group.
    """
    return {path.stem: _reads(path, tuple(groups)) for path in sorted(folder.glob(f"{prefix}*.py"))}


def stem_of(kind: str, name: str, known: Iterable[str]) -> str:
    """File stem of a LaTeX label: ``tab_cls`` for ``tab:cls``.

    Args:
        kind: what is called so, for the message.
        name: stem or label.
        known: all stems.

    Raises:
        UserError: there is none; the message names those that there are, the nearest first.
    """
    stem, known = name.replace(":", "_").replace("-", "_"), list(known)
    if stem not in known:
        nearest = sorted(known, key=lambda other: -difflib.SequenceMatcher(None, stem, other).ratio())
        raise UserError(f"{kind} '{name}': there is none of this name; there are {', '.join(nearest)}")
    return stem


def refuse_file(target: Path, known: Sequence[Path]) -> NoReturn:
    """Says of a file that nothing makes what there is instead.

    Args:
        target: what was asked for, such as ``paper_tables/tab_cls.txt``.
        known: all files of tables and figures.

    Raises:
        UserError: always: with the files of that name, where they lie, or the names that there are.
    """
    files = [path for path in known if path.name.partition(".")[0] == target.name.partition(".")[0]]
    if not files:
        kind, start = ("figure", "fig_") if "figures" in target.parent.name else ("table", "tab_")
        names = (path.name.partition(".")[0] for path in known if path.name.startswith(start))
        stem_of(kind, target.stem, dict.fromkeys(names))
    shown = [str(path) for path in files if not path.name.endswith(RECORD_SUFFIX)]
    raise UserError(
        f"{target}: no job makes it; there are {', '.join(shown)} (and paper_tables/paper.pdf, all tables and figures)"
    )


def _reads(path: Path, groups: tuple[str, ...]) -> str:
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "READS" for target in targets):
            group = getattr(node.value, "value", None)  # type: ignore[attr-defined]
            if group in groups:
                return str(group)
    raise UserError(f"{path}: must say what it is made from: READS = {' or '.join(repr(group) for group in groups)}")
