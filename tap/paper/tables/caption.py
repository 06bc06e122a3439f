"""Captions: what was measured, at which scale, on which device and after which training."""

from __future__ import annotations

from collections.abc import Sequence

from tap.config.methods import DENSE
from tap.core.budget import keep_count
from tap.paper.measured import FLOORS, Measured
from tap.paper.tables.latex import MISSING, count, escape
from tap.paper.units import points_of, text_of_score
from tap.task_facts import TASKS, Metric

SMOKE_NOTE = "Smoke scale: these numbers mean nothing; they only show that the workflow runs."

DATASETS = {
    "fashion_mnist": "Fashion-MNIST",
    "imagenet": "ImageNet-1K",
    "microscopy": "labelled microscopy frames",
    "ade20k": "ADE20K",
    "coco": "COCO",
}

_NOISE, _MISSED = 1.1, 0.05

_START = {
    "scratch": "random weights",
    "pretrained": "the pre-trained weights",
    "dense": "a training without pruning of the same seed, common to all",
}


def main_caption(title: str, measured: Measured, methods: Sequence[str], scale: str, name: str) -> list[str]:
    """Caption of a main table, as sentences in LaTeX.

    Args:
        title: the task in words.
        measured: what the runs measured.
        methods: rows of the table.
        scale: ``smoke``, ``desk`` or ``paper``.
        name: stem of the table's files.
    """
    data = ", ".join(DATASETS.get(item, item) for item in measured.facts("dataset")) or "no data yet"
    points = points_of(_score(measured)) if len(measured.frame) else "points"
    parts = [
        rf"{title} on {escape(data)} at $\rho={measured.rate:g}$, measured at scale \texttt{{{escape(scale)}}}.",
        *([rf"\textbf{{{SMOKE_NOTE}}}"] if scale == "smoke" else []),
        f"Parentheses give changes from no pruning in {points}, and throughput as a multiple of the dense encoder "
        "on the same kernel in the same process (of no pruning itself: the noise of that measurement).",
        "Size/add. lists the no-pruning model once and then each method's addition at inference, counted from the "
        "built models.",
        *_only_in_training(measured, methods),
        _where(measured),
        *_machine_noise(measured, methods),
        _seeds(measured, methods, name),
        _training(measured),
        *_token_counts(measured, methods),
        *floors(measured),
        f"The best fully fine-tuned result is bold; {MISSING} has not been measured.",
    ]
    return [part for part in parts if part]


def floors(measured: Measured) -> list[str]:
    """The floors of a dense task in a sentence, and a warning where no pruning does not rise above them."""
    found = measured.floors()
    if not found:
        return []
    metric = _score(measured)
    values = (f"{FLOORS[key]} {text_of_score(metric, value.mean)}" for key, value in found.items())
    sentences = [f"Floors: {', '.join(values)}."]
    dense = measured.value(DENSE, metric.name)
    if dense is not None and not measured.above_floors(metric.name):
        sentences.append(
            f"No pruning ({text_of_score(metric, dense.mean)}) is not above every floor: here a trained encoder gives "
            "the head no more than a random one. So differences between methods tell what is lost with the patches "
            "that they remove, not whether they tell learned features apart."
        )
    return sentences


def _score(measured: Measured) -> Metric:
    return TASKS[str(measured.frame["task"].iloc[0])].score


def _where(measured: Measured) -> str:
    """Device, batch, precision and kernel of the throughput; several of one kind are all named."""
    parts = []
    for column, name in (
        ("device", "device"),
        ("batch", "batch"),
        ("dtype", "precision"),
        ("kernel", "attention kernel"),
    ):
        found = measured.facts(column)
        if found:
            mixed = " (not the same for every row)" if len(found) > 1 else ""
            parts.append(f"{name} {escape(', '.join(found))}{mixed}")
    return f"Throughput: {'; '.join(parts)}." if parts else ""


def _machine_noise(measured: Measured, methods: Sequence[str]) -> list[str]:
    """How the dense encoder's own speed differs between the rows, where it does by more than a tenth."""
    found = [measured.value(method, "encoder_dense_images_per_second") for method in methods]
    speeds = [value.mean for value in found if value is not None]
    if not speeds or max(speeds) <= _NOISE * min(speeds):
        return []
    return [
        f"The dense encoder itself ran at {min(speeds):.3g} to {max(speeds):.3g} im/s beside the different rows, so "
        "the multiples compare rows and im/s do not."
    ]


def _seeds(measured: Measured, methods: Sequence[str], name: str) -> str:
    runs = measured.runs
    sets = {
        tuple(sorted(set(runs.loc[runs["method"] == method, "seed"]))) for method in methods if measured.has(method)
    }
    if not sets:
        return ""
    if len(sets) > 1:
        return f"Means over the seeds that {escape(name)}.csv lists for each row."
    seeds = sets.pop()
    if len(seeds) == 1:
        return f"One seed ({seeds[0]})."
    return (
        f"Means over {len(seeds)} seeds; {escape(name)}.csv has the standard deviations and the paired bootstrap "
        "intervals of the changes."
    )


def _training(measured: Measured) -> str:
    """Budget of no pruning and of the other methods, as their records state it."""
    runs = measured.runs
    groups = {
        "no pruning": runs[runs["method"] == DENSE],
        "every other method": runs[runs["method"] != DENSE],
    }
    budgets = {
        of: sorted({(row.budget, row.start) for row in rows.itertuples() if row.budget}) for of, rows in groups.items()
    }
    if len({tuple(budget) for budget in budgets.values()}) == 1:
        budgets = {"every method, no pruning too": budgets["no pruning"]}
    parts = []
    for of, budget in budgets.items():
        texts = [f"{length} from {_START.get(start, start)}" for length, start in budget]
        if texts:
            parts.append(f"{of}: {escape(' or '.join(texts))}")
    return f"Training: {'; '.join(parts)}." if parts else ""


def _only_in_training(measured: Measured, methods: Sequence[str]) -> list[str]:
    """Names the methods that add more to the model in training than at inference."""
    larger = []
    for method in methods:
        added, training = (measured.value(method, name) for name in ("parameters_added", "parameters_added_training"))
        if added is not None and training is not None and training.mean > added.mean:
            larger.append(f"{escape(method)} +{count(training.mean)}")
    return [f"In training more is added: {', '.join(larger)}."] if larger else []


def _token_counts(measured: Measured, methods: Sequence[str]) -> list[str]:
    """Names the methods that do not leave exactly K patches in every image."""
    spread, missed = [], []
    for method in methods:
        mean, sd = (measured.value(method, name) for name in ("final_tokens_mean", "final_tokens_sd"))
        patches = measured.value(method, "patches")
        if method == DENSE or mean is None or patches is None:
            continue
        exact = keep_count(round(patches.mean), measured.rate)
        deviation = 0.0 if sd is None else sd.mean
        if deviation > 0 or mean.mean != exact:
            spread.append(rf"{escape(method)} ${mean.mean:.1f}\pm{deviation:.1f}$ for {exact}")
        if abs(mean.mean - exact) > _MISSED * exact:
            missed.append(escape(method))
    sentences = [f"Final patches where they are not exact: {', '.join(spread)}."] if spread else []
    if missed:
        sentences.append(
            f"More than a twentieth from that: {', '.join(missed)}, whose changes are those of another rate."
        )
    return sentences
