"""Ablations, matching, allocation and estimator tables against each other and against the text."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import comb

from tap.paper.consistency.main import MAIN_OF_TASK
from tap.paper.consistency.rule import Finding, Rule, cell, check, difference, holds, number, same, total
from tap.paper.reported import load_reported
from tap.paper.statements import load_statements, stated

_ABSOLUTE, _DENSE_TASKS, _BLOCKS = "tab:absolute-ablation", ("seg", "det"), ("3", "6", "9")
_PATCHES_SEG, _KEPT_SEG = 1024, 512  # grid of 32 x 32 at keep rate 0.5


def absolute_ablation() -> Iterator[Finding]:
    """TAP-F plus the change."""
    label = "tab:ablation"
    for row in load_reported(label).rows:
        for task, printed in zip(("cls", "seg", "det"), row.cells, strict=True):
            if printed is not None and printed.value is not None:
                absolute = cell(_ABSOLUTE, row.key, task)
                full = cell(_ABSOLUTE, "full", task)
                yield check(f"{label}/{row.key} {task}", "absolute - TAP-F", printed, difference, absolute, full)


def reference_points() -> Iterator[Finding]:
    """TAP-F and its variants have the same score wherever they are printed."""
    for task, (main, score) in MAIN_OF_TASK.items():
        yield _same(_ABSOLUTE, "full", task, main, "tap_f", score)
        yield _same("tab:factorial", "own_own", task, _ABSOLUTE, "full", task)
        yield _same("tab:factorial", "shared_own", task, _ABSOLUTE, "shared_register", task)
        yield _same("tab:training-ablation", "constrained", task, _ABSOLUTE, "full", task)
    for task in _DENSE_TASKS:
        yield _same("tab:matching-ablation", "key", task, _ABSOLUTE, "full", task)
        yield _same("tab:matching-recovery", "key", f"{task}_0", _ABSOLUTE, "alpha_0", task)
        yield _same("tab:matching-recovery", "key", f"{task}_1", _ABSOLUTE, "alpha_1", task)
        for row, other in (
            ("learned", "full"),
            ("task_mean", "mean_allocation"),
            ("shared_static", "shared_allocation"),
            ("uniform", "uniform_allocation"),
        ):
            yield _same("tab:allocation-controls", row, task, _ABSOLUTE, other, task)


def matching() -> Iterator[Finding]:
    """Changes from key cosine, and the learned column of the crossed table."""
    label = "tab:matching-ablation"
    for row in load_reported(label).rows:
        for task in _DENSE_TASKS:
            operands = (cell(label, key, task) for key in (row.key, "key"))
            delta = cell(label, row.key, f"{task}_delta")
            yield check(f"{label}/{row.key} {task}", "score - key cosine", delta, difference, *operands)
            yield _same("tab:matching-recovery", row.key, f"{task}_learned", label, row.key, task)


def matching_text() -> Iterator[Finding]:
    """Key cosine is best, and the fixed endpoint that each task prefers is the same for every rule."""
    label = "tab:matching-recovery"
    keys = [row.key for row in load_reported(label).rows]
    for task, better, worse in (("seg", "1", "0"), ("det", "0", "1")):
        column = f"{task}_learned"
        others = max(number(cell(label, key, column)) for key in keys if key != "key")
        margin = number(cell(label, "key", column)) - others
        yield holds(f"text/key cosine is best {task}", "key cosine - best other rule", "> 0", margin, margin > 0)
        for key in keys:
            gap = number(cell(label, key, f"{task}_{better}")) - number(cell(label, key, f"{task}_{worse}"))
            learned = number(cell(label, key, column)) - number(cell(label, key, f"{task}_{better}"))
            formula = f"alpha {better} - alpha {worse}; learned above both"
            yield holds(f"{label}/{key} {task}", formula, "> 0", gap, gap > 0 and learned >= 0)


def ablation_text() -> Iterator[Finding]:
    """Losses that the text gives for single ablations."""
    rows = {
        "attention-selection": "attention_selection",
        "static-query": "static_query",
        "shared-register": "shared_register",
        "both-means": "both_means",
        "mean-allocation": "mean_allocation",
        "shared-allocation": "shared_allocation",
    }
    for name, row in rows.items():
        for task in load_statements()[name].numbers:
            operands = (cell(_ABSOLUTE, key, task) for key in ("full", row))
            yield check(f"text/{name} {task}", f"TAP-F - {row}", stated(name, task), difference, *operands)
    for task in MAIN_OF_TASK:
        operands = (cell("tab:factorial", key, task) for key in ("own_own", "shared_shared"))
        yield check(
            f"text/both-shared {task}", "TAP-F - both shared", stated("both-shared", task), difference, *operands
        )
    for task in _DENSE_TASKS:
        zero = number(cell("tab:ablation", "zero_fill", task))
        ends = min(number(cell("tab:ablation", key, task)) for key in ("alpha_0", "alpha_1"))
        yield holds(f"text/zero-fill {task}", "worse endpoint - zero-fill", "> 0", ends - zero, zero < ends)
        operands = (cell("tab:allocation-controls", key, task) for key in ("oracle", "learned"))
        yield check(f"text/oracle-gain {task}", "oracle - learned", stated("oracle-gain", task), difference, *operands)


def splits() -> Iterator[Finding]:
    """Shares add up, repeat each other, and lie as the text says."""
    label, summary = "tab:allocation-controls", "tab:register-distributions"
    for row in load_reported(label).rows:
        for task in _DENSE_TASKS:
            shares = total(*(number(cell(label, row.key, f"{task}_share_{block}")) for block in _BLOCKS))
            near = abs(shares - 100) <= Decimal("0.1")  # the caption allows a tenth
            yield holds(f"{label}/{row.key} {task}", "sum of the three shares", "100 or 100.1", shares, near)
    for task in _DENSE_TASKS:
        for block in _BLOCKS:
            yield _same(summary, f"{task}_{block}", "share", label, "learned", f"{task}_share_{block}")
        first = number(cell(label, "learned", f"{task}_share_3"))
        for other in ("shared_static", "oracle"):
            gap = number(cell(label, other, f"{task}_share_3")) - first
            where = f"text/TAP removes fewer tokens early, {task} against {other}"
            yield holds(where, f"{other} - learned at block 3", "> 0", gap, gap > 0)
    gap = difference(*(number(cell(label, "learned", f"{task}_share_3")) for task in ("det", "seg")))
    yield holds("text/segmentation protects early evidence", "detection - segmentation at block 3", "> 0", gap, gap > 0)
    for column in ("share_sd", "share_iqr", "scale_sd", "scale_iqr"):
        spread = number(cell(summary, "det_3", column))
        yield holds(f"{summary}/det_3 {column}", "block 3 of detection sees no image", "0", spread, spread == 0)


def oracle_grid() -> Iterator[Finding]:
    """Three shares in steps of 5 percent; the main text calls the search exhaustive."""
    steps = 100 // int(number(stated("oracle-grid", "step")))
    count = comb(steps + 2, 2)
    yield check("text/oracle-grid splits", "C(100/5 + 2, 2)", stated("oracle-grid", "splits"), lambda: Decimal(count))
    every = comb(_PATCHES_SEG - _KEPT_SEG + 2, 2)
    formula = f"integer splits of {_PATCHES_SEG - _KEPT_SEG} removals over three blocks against the {count} of the grid"
    yield holds("text/oracle searches exhaustively", formula, f"{count}", every, every == count)


def _same(label: str, row: str, column: str, other: str, other_row: str, other_column: str) -> Finding:
    printed, operand = cell(label, row, column), cell(other, other_row, other_column)
    return check(f"{label}/{row} {column}", f"{other_column} of {other}/{other_row}", printed, same, operand)


RULES = (
    Rule("absolute-ablation", "tab:absolute-ablation is TAP-F plus tab:ablation", absolute_ablation),
    Rule("reference-points", "One experiment has one score in every table", reference_points),
    Rule("matching-deltas", "Matching changes follow, and the crossed table repeats them", matching),
    Rule("matching-text", "Key cosine is best; tasks prefer opposite endpoints under every rule", matching_text),
    Rule("ablation-text", "Losses in the text follow from the ablation tables", ablation_text),
    Rule("splits", "Shares of the budget add up and lie as the text says", splits),
    Rule("oracle-grid", "The oracle's grid has the stated size and is exhaustive", oracle_grid),
)
