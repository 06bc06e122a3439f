"""A file beside the one that was made anew: which line, cell or key of it differs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tap.paper.difference import Difference, same

SHOWN: Final = 5
"""So many differences of one file are named; the first ones say what happened."""
_WIDTH: Final = 100
_KEYS: Final = 4
_NAMES: Final = ("scale", "kind", "row", "column", "other", "metric", "panel", "task", "series", "layer")
"""Columns that say what a line of a table or figure is about."""
_BRACKETS: Final = re.compile(r"\[[-+\d., ]+\]")
_OF_INTERVALS: Final = re.compile(r"(.*[., ])?(low|high|verdict)")
"""Names of cells and keys: the last word of theirs."""
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


def text_differences(file: str, recorded: str, recomputed: str, shown: int | None = SHOWN) -> list[Difference]:
    """Where two versions of a file differ: by cell in a CSV, by key in JSON, by line in any other text.

    Args:
        file: its name, whose ending says what it is.
        recorded: what is there.
        recomputed: what was made anew.
        shown: so many at most; None for all.
    """
    if recorded == recomputed:
        return []
    found: list[Difference] = []
    if file.endswith(".csv"):
        found = csv_differences(file, recorded, recomputed)
    elif file.endswith(".json"):
        found = list(tree_differences(file, json.loads(recorded), json.loads(recomputed)))
    return (found or list(_lines(file, recorded, recomputed)))[:shown]


def csv_differences(file: str, recorded: str, recomputed: str) -> list[Difference]:
    """Cells of a table that are not those of the one made anew; numbers may differ in the last digits.

    Args:
        file: whose table it is.
        recorded, recomputed: with the names of columns in the first line.
    """
    (names, *lines), (wanted, *anew) = ([*csv.reader(io.StringIO(text))] or [[]] for text in (recorded, recomputed))
    if names != wanted:
        return [Difference(file, "columns", " ".join(names), " ".join(wanted))]
    if len(lines) != len(anew):
        return [Difference(file, "lines", len(lines), len(anew))]
    found = []
    for number, (ours, theirs) in enumerate(zip(lines, anew, strict=True), start=2):
        about = " ".join(cell for cell in theirs[:_KEYS] if cell)
        for name, cell, other in zip(names, ours, theirs, strict=False):
            if not _equal(cell, other):
                found.append(Difference(file, f"line {number} ({about}), {name}", cell, other))
        if len(ours) != len(theirs):
            found.append(Difference(file, f"line {number} ({about})", f"{len(ours)} cells", f"{len(theirs)} cells"))
    return found


def number_differences(file: str, recorded: str, recomputed: str) -> list[Difference]:
    """Numbers of a file that are not those of the one made anew by code that may word and arrange it differently.

    Today's code may add columns and rows, so every number of the recorded file is looked for in the new one: in a CSV
    in the line of the same names, in any other file anywhere in the rows of its tables, as often as it stands there.
    There, what stands in brackets is left out: intervals, which the CSV beside it has too.

    Args:
        file: its name.
        recorded: what is there.
        recomputed: what was made anew.
    """
    if file.endswith(".csv"):
        found = list(_cells_elsewhere(file, recorded, recomputed))
        bounds = [item for item in found if of_interval(item)]
        return [item for item in found if not of_interval(item)][:SHOWN] + bounds
    ours, theirs = (
        Counter(number for row in _rows(text) for number in _NUMBER.findall(_BRACKETS.sub("", row)))
        for text in (recorded, recomputed)
    )
    lost = ours - theirs
    return [
        Difference(file, f"{number} in rows of tables", f"{ours[number]} times", f"{theirs[number]} times")
        for number in sorted(lost)
    ][:SHOWN]


def of_interval(item: Difference) -> bool:
    """Whether a value is a bound of an interval, or decided by one: which of them code states depends on what it
    resamples, while the number between the bounds does not."""
    return _OF_INTERVALS.fullmatch(item.field) is not None


def _cells_elsewhere(file: str, recorded: str, recomputed: str) -> Iterator[Difference]:
    """Numbers of a table's lines that the lines of the same names in another table do not have."""
    lines, anew = ([*csv.DictReader(io.StringIO(text))] for text in (recorded, recomputed))
    names = [name for name in _NAMES if lines and anew and name in lines[0] and name in anew[0]]
    known: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for line in anew:
        known.setdefault(tuple(line[name] for name in names), []).append(line)
    finer: dict[tuple[str, ...], list[dict[str, str]]] = {}  # `floor_constant` of today under `floor` of then
    for key, those in known.items():
        finer.setdefault(tuple(_coarse(name, cell) for name, cell in zip(names, key, strict=True)), []).extend(those)
    for line in lines:
        if line.get("value") == "":
            continue  # nothing was measured there, and rows and columns without a number come and go
        key = tuple(line[name] for name in names)
        numbers = {name: cell for name, cell in line.items() if name not in _NAMES and _is_number(cell)}
        common = [
            {name: other.get(name) for name in numbers if name in other}
            for other in known.get(key) or finer.get(key, [])
        ]
        if not numbers or any(all(_equal(numbers[name], cell or "") for name, cell in pair.items()) for pair in common):
            continue
        about = " ".join(filter(None, key))
        if not common:
            yield Difference(file, about, " ".join(numbers.values()), "no such line")
        for name, cell in common[0].items() if common else ():
            if not _equal(numbers[name], cell or ""):
                yield Difference(file, f"{about}, {name}", numbers[name], cell)


def _coarse(name: str, cell: str) -> str:
    """A row's name as earlier code may have called it: what stands before its first underscore."""
    return cell.partition("_")[0] if name == "row" else cell


def tree_differences(file: str, recorded: Any, recomputed: Any, name: str = "") -> Iterator[Difference]:
    """Values of a JSON tree that are not those of the one made anew, each under its dotted name."""
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        for key in dict.fromkeys([*recorded, *recomputed]):
            below = f"{name}.{key}" if name else str(key)
            yield from tree_differences(file, recorded.get(key), recomputed.get(key), below)
    elif _is_list(recorded) and _is_list(recomputed) and len(recorded) == len(recomputed):
        for number, pair in enumerate(zip(recorded, recomputed, strict=True)):
            yield from tree_differences(file, *pair, f"{name}[{_title(pair[1], number)}]")
    elif recorded != recomputed and not same(recorded, recomputed):
        yield Difference(file, name or "content", _short(recorded), _short(recomputed))


def _rows(text: str) -> list[str]:
    """Rows of tables in LaTeX and Markdown."""
    return [line for line in text.splitlines() if line.startswith("|") or (line.endswith(r"\\") and "&" in line)]


def _lines(file: str, recorded: str, recomputed: str) -> Iterator[Difference]:
    ours, theirs = recorded.splitlines(), recomputed.splitlines()
    for number in range(max(len(ours), len(theirs))):
        pair = [lines[number] if number < len(lines) else None for lines in (ours, theirs)]
        if pair[0] != pair[1]:
            yield Difference(file, f"line {number + 1}", *(_around(*pair) if None not in pair else map(_short, pair)))
    if ours == theirs:
        yield Difference(file, "ends of lines", len(recorded), len(recomputed))


def _around(first: str, second: str) -> tuple[str, str]:
    """The part of two long lines where they differ first."""
    shorter = min(len(first), len(second))
    start = next((at for at in range(shorter) if first[at] != second[at]), shorter)
    begin = max(0, start - _WIDTH // 4)
    return _short(first[begin:]), _short(second[begin:])


def _equal(cell: str, other: str) -> bool:
    return cell == other or (_is_number(cell) and _is_number(other) and same(float(cell), float(other)))


def _is_number(cell: str | None) -> bool:
    try:
        return cell is not None and math.isfinite(float(cell))
    except ValueError:
        return False


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _title(item: Any, number: int) -> str:
    return str(item["id"]) if isinstance(item, Mapping) and "id" in item else str(number)


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if value is None or len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
