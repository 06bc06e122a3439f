"""Parameters, buffers, memory, latency, budgets and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from tap.paper.consistency.main import MAIN_OF_TASK
from tap.paper.consistency.rule import (
    Finding,
    Rule,
    cell,
    cells,
    check,
    holds,
    number,
    percent_change,
    ratio,
    same,
    total,
)
from tap.paper.reported import Printed, load_reported
from tap.paper.statements import stated

_WIDTH, _RANK, _BLOCKS, _PATCH = Decimal(768), Decimal(8), Decimal(12), 16
_POINTER_BYTES, _SCALAR_BYTES, _PRUNING_BLOCKS = 4, 2, 3  # INT32, BF16, M


def parameters() -> Iterator[Finding]:
    """Counts of the add-ons."""
    label = "tab:parameters"
    controller, per_block = 3 * _WIDTH + 2, 16 * _WIDTH * _RANK
    yield check(f"{label}/total tap", "3d + 2", cell(label, "total", "tap"), lambda: controller)
    yield check("text/controller-size", "3d + 2", stated("controller-size", "count"), lambda: controller)
    yield check("text/classification-only", "2d + 1", stated("classification-only", "count"), lambda: 2 * _WIDTH + 1)
    # The attention output projection maps d to d. The paper's formula prints (3d + d) for it and d + d in effect.
    block = stated("lora-block", "count")
    yield check("text/lora-block", "8[(d+3d)+(d+d)+(d+4d)+(4d+d)]", block, lambda: per_block)
    formula = "8[(d+3d)+(3d+d)+(d+4d)+(4d+d)]"
    yield check("text/lora-block as printed", formula, block, lambda: 18 * _WIDTH * _RANK)
    for where, printed in (
        (f"{label}/lora", cell(label, "lora", "tap_f")),
        ("text/lora-total", stated("lora-total", "lora")),
    ):
        yield check(where, "12 x LoRA of a block", printed, lambda: _BLOCKS * per_block)
    for where, printed in (
        (f"{label}/total tap_f", cell(label, "total", "tap_f")),
        ("text/lora-total task", stated("lora-total", "task")),
        ("text/lora-size", stated("lora-size", "count")),
    ):
        yield check(where, "LoRA + d", printed, lambda: _BLOCKS * per_block + _WIDTH)
    for main, _ in MAIN_OF_TASK.values():
        yield check(f"{main}/tap size", "3d + 2", cell(main, "tap", "size"), lambda: controller)
        yield check(f"{main}/tap_f size", "LoRA + d", cell(main, "tap_f", "size"), lambda: _BLOCKS * per_block + _WIDTH)


def buffer() -> Iterator[Finding]:
    """R(d b_s + b_p) of the main paper against the supplement's + M b_s, which is called negligible."""
    for task, patches in (("seg", 1024), ("det", 4096)):
        main = Decimal(patches // 2) * (_WIDTH * _SCALAR_BYTES + _POINTER_BYTES)
        extra = Decimal(_PRUNING_BLOCKS * _SCALAR_BYTES)
        share = 100 * extra / (main + extra)
        formula = f"percent of M b_s in {main + extra:,.0f} bytes for R = {patches // 2}, BF16 and INT32"
        yield holds(f"text/recovery buffer {task}", formula, "negligible", round(share, 6), share < Decimal("0.01"))


def memory() -> Iterator[Finding]:
    """Changes of peak memory, and the table that repeats them."""
    label = "tab:stability-memory"
    for row in load_reported(label).rows:
        for suffix in ("j", "f"):
            peak, base = cell(label, row.key, f"peak_gb_{suffix}"), cell(label, row.key, "base_gb")
            change = cell(label, row.key, f"change_{suffix}")
            formula = f"percent change of peak_gb_{suffix}"
            yield check(f"{label}/{row.key} {suffix}", formula, change, percent_change, peak, base)
        for column in load_reported("tab:memory").columns:
            printed, operand = cell("tab:memory", row.key, column.key), cell(label, row.key, column.key)
            yield check(f"tab:memory/{row.key} {column.key}", f"{column.key} of {label}", printed, same, operand)


def latency() -> Iterator[Finding]:
    """Sums, percentages, and the throughput that follows."""
    label = "tab:latency-breakdown"
    rows = [row.key for row in load_reported(label).rows if row.key != "total"]
    for task, (main, _) in MAIN_OF_TASK.items():
        parts = {row: cells(label, [row], f"{task}_ms") for row in rows}
        known = [item for found in parts.values() for item in found]
        end = cell(label, "total", f"{task}_ms")
        yield check(f"{label}/total {task}", "sum of the components in ms", end, total, *known)
        for row, found in parts.items():
            for item in found:
                printed = cell(label, row, f"{task}_percent")
                formula = "percent of the end-to-end latency"
                yield check(f"{label}/{row} {task}", formula, printed, lambda a, b: 100 * a / b, item, end)
        percent = total(*(number(item) for item in cells(label, rows, f"{task}_percent")))
        least = stated("latency-total", "percent")
        shown = f">= {least.text}"
        yield holds(f"{label}/percentages {task}", "sum of the percentages", shown, percent, percent >= number(least))
        head = cell(label, "head", f"{task}_ms")
        rate = cell(main, "tap", "encoder_images_per_second")
        formula = "1000 / (all but the head)"
        yield check(f"{main}/tap im/s", formula, rate, lambda a, b: 1000 / (a - b), end, head)
        controller = [cell(label, row, f"{task}_ms") for row in ("register", "ranking")]
        yield check(
            f"text/controller-overhead {task}",
            "100 (register + ranking) / (all but the head)",
            stated("controller-overhead", "percent"),
            lambda a, b, c, d: 100 * (a + b) / (c - d),
            *controller,
            end,
            head,
        )
    full, end = cell("tab:det", "tap", "full_images_per_second"), cell(label, "total", "det_ms")
    yield check("tab:det/tap full im/s", "1000 / end-to-end", full, lambda a: 1000 / a, end)


def budgets() -> Iterator[Finding]:
    """Rows of the synthetic cases by Algorithm 1, and the keep counts of the paper's rates."""
    label = "tab:budget-tests"
    for row in load_reported(label).rows:
        patches, kept = (int(number(cell(label, row.key, column))) for column in ("patches", "kept"))
        proposals, removals = (
            [item.strip() for item in cell_text(label, row.key, column).split(",")]
            for column in ("proposals", "removals")
        )
        left, present, spent = patches - kept, patches, []
        for proposal in proposals:
            # Proposals are integers here, so rounding has nothing to do; the last layer takes what is left.
            removed = left if proposal == "rem." else min(int(proposal), left, present - 1)
            spent.append(removed)
            left, present = left - removed, present - removed
        right = [str(item) for item in spent] == removals
        formula = f"removals {', '.join(map(str, spent))} of {patches - kept}"
        yield holds(f"{label}/{row.key}", formula, ", ".join(removals), sum(spent), right and present == kept)
    for rate, row in (("1", "keep_all"), ("0.7", "sum_59"), ("0.5", "sum_98"), ("0.3", "sum_137")):
        count = int(Decimal(rate) * 196 + Decimal("0.5"))
        printed = cell(label, row, "kept")
        yield check(f"{label}/{row} kept", f"floor({rate} x 196 + 1/2)", printed, lambda count=count: Decimal(count))


def settings() -> Iterator[Finding]:
    """Grids from resolutions, seeds by task, and steps of the joint run."""
    label = "tab:training-config"
    for task in MAIN_OF_TASK:
        side = int(cell_text(label, "resolution", task).removesuffix("^2"))
        grid = int(re.split("\u00d7", cell_text(label, "grid", task))[0])
        yield holds(f"{label}/grid {task}", f"{side} / {_PATCH}", str(grid), side // _PATCH, side == grid * _PATCH)
        yield check(f"text/seeds {task}", f"seeds of {label}", stated("seeds", task), same, cell(label, "seeds", task))
    steps = stated("joint-training", "steps")
    three = Printed(text="3", value=Decimal(3), half_unit=Decimal(0))
    yield check(
        "text/joint-training per task", "steps / tasks", stated("joint-training", "per_task"), ratio, steps, three
    )


def cell_text(label: str, row: str, column: str) -> str:
    """Characters of a cell.

    Raises:
        ValueError: the paper prints nothing there.
    """
    found = load_reported(label).cell(row, column)
    if found is None:
        raise ValueError(f"{label}/{row}: column '{column}' is empty")
    return found.text


RULES = (
    Rule("parameters", "Parameter counts follow from d, the rank and the depth", parameters),
    Rule("recovery-buffer", "The layer scales are a negligible part of the recovery buffer", buffer),
    Rule("memory", "Changes of peak memory follow, in both tables", memory),
    Rule("latency", "Latencies add up, give the percentages and the throughput", latency),
    Rule("budget-rows", "The synthetic budgets follow Algorithm 1", budgets),
    Rule("settings", "Grids, seeds and steps fit each other", settings),
)
