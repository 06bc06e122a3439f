"""`tab:keep-rates`: TAP over keep rates. A rate that was measured and that the paper does not have is a row as well."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.reported import Row
from tap.paper.tables.regimes import ENCODER, FULL, FULL_TOO, PEAK, REGIMES, deviation, first_part
from tap.paper.tables.table import PLUS_MINUS, Cells, Content, Head, Table, known, stated
from tap.task_facts import TASKS

READS = "rates"


def cells(evidence: Evidence) -> Cells:
    """Score, spread, throughput and memory at every keep rate."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        measured = evidence.measured(task)
        for method in REGIMES:
            for rate in sorted({key.rate for key in map(measured.key, measured.selectors(method))}):
                row, selector = f"{task}_{method}_{rate:g}", f"{method}@{rate:.2f}"
                if not measured.has(selector):
                    continue
                score = measured.value(selector, TASKS[task].score.name)
                found |= {(row, "task"): stated(task), (row, "rate"): stated(f"{rate:g}")}
                found |= {(row, "score"): score, (row, "score_sd"): deviation(score)}
                found |= {(row, name): measured.value(selector, name) for name in (ENCODER, PEAK)}
                if task in FULL_TOO:
                    found[row, FULL] = measured.value(selector, FULL)
    return known(found)


def row(key: str) -> Row:
    """Named as the paper names its rows."""
    task, method = key.rpartition("_")[0].split("_", 1)
    return Row(key, f"{task.title()} {REGIMES[method].upper()}")


TABLE = Table(
    "Keep-rate results for TAP-J (J) and TAP-F (F): top-1 accuracy, mIoU or box AP, images per second, peak memory",
    (
        Head(r"$\rho$", ("rate",)),
        Head(r"Score $\pm$ SD", ("score", "score_sd"), PLUS_MINUS),
        Head("Enc.", (ENCODER,)),
        Head("Full", (FULL,)),
        Head("GB", (PEAK,)),
    ),
    cells,
    words=("task", "rate"),
    row=row,
    task_of=first_part,
)
