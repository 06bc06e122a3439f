"""`tab:keep-rates`: TAP over keep rates. A rate that was measured and that the paper does not have is a row as well."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.reported import Column, Row
from tap.paper.tables.caption import speeds_note
from tap.paper.tables.main_table import own_speed
from tap.paper.tables.regimes import ENCODER, FULL, FULL_TOO, PEAK, REGIMES, deviation, first_part
from tap.paper.tables.table import PLUS_MINUS, Cells, Content, Head, Table, known, stated
from tap.task_facts import TASKS

READS = "rates"
OWN = "own_images_per_second"


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
                speeds = (ENCODER, PEAK, *([FULL] if task in FULL_TOO else []))
                found |= {(row, name): evidence.speed(task, selector, name) for name in speeds}
                found |= {(row, OWN): own_speed(evidence, task, selector, ENCODER)}
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
        Head("Own enc.", (OWN,), optional=True),
    ),
    cells,
    words=("task", "rate"),
    columns=(Column(OWN, "Own enc.", "images/s"),),
    row=row,
    note=speeds_note,
    task_of=first_part,
)
