"""One printed number against what follows from others: the rule, its findings, and the three outcomes.

A recomputed number is compared at the printed precision. Operands are themselves rounded, so there are three outcomes:
``exact`` (the printed operands give the printed result), ``rounding`` (some numbers that print like the operands give
it), ``disagrees`` (none do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from itertools import product

from tap.paper.reported import Printed, load_reported

EXACT, ROUNDING, DISAGREES = "exact", "rounding", "disagrees"


@dataclass(frozen=True)
class Finding:
    """One printed number against its recomputation.

    Attributes:
        where: table and row, or the statement of the text, such as ``tab:seg/tome``.
        formula: how the number follows, in words and numbers.
        printed: the result as printed.
        recomputed: the formula on the printed operands.
        outcome: ``exact``, ``rounding`` or ``disagrees``.
        rule: id of the rule that found it.
    """

    where: str
    formula: str
    printed: str
    recomputed: Decimal
    outcome: str
    rule: str = ""


@dataclass(frozen=True)
class Rule:
    """What follows from what.

    Attributes:
        id: stable name.
        title: what must hold, in words.
        search: yields a finding for every printed number that the rule covers.
    """

    id: str
    title: str
    search: Callable[[], Iterator[Finding]]

    def findings(self) -> list[Finding]:
        """What the rule finds in the paper."""
        return [replace(finding, rule=self.id) for finding in self.search()]


def check(where: str, formula: str, result: Printed, function: Callable[..., Decimal], *operands: Printed) -> Finding:
    """Recomputes ``result`` as ``function(*operands)``.

    The range of the function over the operands' rounding intervals is taken from the corners: right for functions that
    are monotone in each operand, as differences, ratios and sums are.
    """
    value = function(*(number(operand) for operand in operands))
    corners = [function(*corner) for corner in product(*((operand.low, operand.high) for operand in operands))]
    unit = 2 * (result.half_unit or Decimal(0))
    rounded = {_to_unit(value, unit, mode) for mode in (ROUND_HALF_UP, ROUND_HALF_EVEN)} if unit else {value}
    if result.value in rounded:
        outcome = EXACT
    elif min(corners) <= result.high and max(corners) >= result.low:
        outcome = ROUNDING
    else:
        outcome = DISAGREES
    shown = f" = {', '.join(operand.text for operand in operands)}" if operands else ""
    return Finding(where, f"{formula}{shown}", result.text, value, outcome)


def holds(where: str, formula: str, printed: str, value: Decimal | int, condition: bool) -> Finding:
    """A statement that is true or false of printed numbers, such as a bound or an order."""
    return Finding(where, formula, printed, Decimal(value), EXACT if condition else DISAGREES)


def cell(label: str, row: str, column: str) -> Printed:
    """A printed number of a table.

    Raises:
        ValueError: the cell holds none.
    """
    found = load_reported(label).cell(row, column)
    if found is None or found.value is None:
        raise ValueError(f"{label}/{row}: column '{column}' holds no number")
    return found


def cells(label: str, rows: Iterable[str], column: str) -> list[Printed]:
    """The printed numbers of a column; rows in which the paper prints none are left out."""
    found = (load_reported(label).cell(row, column) for row in rows)
    return [item for item in found if item is not None and item.value is not None]


def number(printed: Printed) -> Decimal:
    """The value of a printed number.

    Raises:
        ValueError: it is none.
    """
    if printed.value is None:
        raise ValueError(f"'{printed.text}' is no number")
    return printed.value


def difference(a: Decimal, b: Decimal) -> Decimal:
    """a - b."""
    return a - b


def ratio(a: Decimal, b: Decimal) -> Decimal:
    """a / b."""
    return a / b


def percent_change(a: Decimal, b: Decimal) -> Decimal:
    """Change from b to a in percent of b."""
    return 100 * (a - b) / b


def same(a: Decimal) -> Decimal:
    """The number itself, printed in a second place."""
    return a


def total(*parts: Decimal) -> Decimal:
    """Sum."""
    return sum(parts, Decimal(0))


def mean(*parts: Decimal) -> Decimal:
    """Arithmetic mean."""
    return total(*parts) / len(parts)


def _to_unit(value: Decimal, unit: Decimal, mode: str) -> Decimal:
    return (value / unit).quantize(Decimal(1), mode) * unit
