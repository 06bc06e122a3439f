"""The paper against itself, for a person (text), a page (Markdown) or a program (JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal

from tap.errors import UserError
from tap.paper.consistency import RULES
from tap.paper.consistency.rule import DISAGREES, EXACT, ROUNDING, Finding, Rule

_OUTCOMES = {
    EXACT: "follow exactly from the printed numbers",
    ROUNDING: "follow if rounding of the operands is allowed for",
    DISAGREES: "do not follow",
}


def render(form: str = "text", everything: bool = False) -> str:
    """Findings of all rules.

    Args:
        form: ``text``, ``markdown`` or ``json``.
        everything: whether to list agreement too; JSON always does.

    Raises:
        UserError: the form is unknown.
    """
    writers = {"text": _text, "markdown": _markdown}
    found = [(rule, rule.findings()) for rule in RULES]
    if form == "json":
        return _json(found)
    if form not in writers:
        raise UserError(f"--format: '{form}' is not one of text, markdown, json")
    shown = [(rule, [item for item in items if everything or item.outcome != EXACT]) for rule, items in found]
    return writers[form](found, shown)


def show(value: Decimal) -> str:
    """A recomputed number, at most six significant digits."""
    return f"{value:,}" if value == value.to_integral_value() else f"{value:.6g}"


def counts(found: Sequence[tuple[Rule, list[Finding]]]) -> dict[str, int]:
    """Number of findings by outcome."""
    counted = Counter(item.outcome for _, items in found for item in items)
    return {outcome: counted[outcome] for outcome in _OUTCOMES}


def _json(found: Sequence[tuple[Rule, list[Finding]]]) -> str:
    tree = {
        "counts": counts(found),
        "rules": [
            {
                "id": rule.id,
                "title": rule.title,
                "findings": [asdict(item) | {"recomputed": show(item.recomputed)} for item in items],
            }
            for rule, items in found
        ],
    }
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def _text(found: Sequence[tuple[Rule, list[Finding]]], shown: Sequence[tuple[Rule, list[Finding]]]) -> str:
    lines = [f"{count} {_OUTCOMES[outcome]}" for outcome, count in counts(found).items()]
    for rule, items in shown:
        if items:
            lines += ["", f"{rule.id}: {rule.title}"]
        for item in items:
            lines.append(f"  {item.outcome:9} {item.where}: printed {item.printed}, recomputed {show(item.recomputed)}")
            lines.append(f"            {item.formula}")
    return "\n".join(lines) + "\n"


def _markdown(found: Sequence[tuple[Rule, list[Finding]]], shown: Sequence[tuple[Rule, list[Finding]]]) -> str:
    lines = ["# The paper against itself", ""]
    lines += [f"- {count} numbers {_OUTCOMES[outcome]}" for outcome, count in counts(found).items()]
    for rule, items in shown:
        if not items:
            continue
        lines += ["", f"## {rule.title} (`{rule.id}`)", "", "| where | formula | printed | recomputed | outcome |"]
        lines.append("|---|---|---|---|---|")
        for item in items:
            cells = (item.where, item.formula, item.printed, show(item.recomputed), item.outcome)
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"
