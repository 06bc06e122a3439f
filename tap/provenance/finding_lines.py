"""Findings in few lines: those of one kind in one folder share a line, or a clone without data fills the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from tap.provenance.finding import Finding

ALONE: Final = 3
"""So many findings of one kind in one folder still get a line each."""
_DEPTH: Final = {"data": 2, "outside": 2, "results": 3, "published": 3}
_RUNS: Final = "runs"


def finding_lines(findings: Iterable[Finding], everything: bool = False) -> list[str]:
    """What was found, as text.

    Args:
        findings: in the order of the graph.
        everything: one line for each, however many there are.

    Returns:
        Lines in the order of the first finding that each tells of, so that the first line is where the trouble starts.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for number, finding in enumerate(findings):
        key = str(number) if everything else folder_of(finding.path)
        groups.setdefault((finding.kind, key), []).append(finding)
    lines: list[str] = []
    for (_, folder), group in groups.items():
        lines += [_together(folder, group)] if len(group) > ALONE else map(str, group)
    return lines


def folder_of(path: str) -> str:
    """The folder under which a file is counted: a dataset's, a task's runs, a kind of result, or the first one.

    Args:
        path: the file, as records call it.
    """
    folders = PurePosixPath(path).parts[:-1]
    if not folders:
        return path
    depth = _DEPTH.get(folders[0], 1)
    return "/".join(folders[: depth + 1 if folders[2:3] == (_RUNS,) else depth])


def _together(folder: str, group: Sequence[Finding]) -> str:
    first, names = group[0], {PurePosixPath(finding.path).name for finding in group}
    what = f"files called {names.pop()}" if len(names) == 1 else "files"
    return f"{folder}: {first.kind}: {len(group)} {what}, the first {first.path} ({first.reason})"
