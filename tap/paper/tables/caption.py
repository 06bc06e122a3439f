"""Captions: what was measured, at which scale, on which device and after which training."""

from __future__ import annotations

from collections.abc import Sequence

from tap.config.methods import DENSE
from tap.core.budget import keep_count
from tap.paper.evidence import Evidence
from tap.paper.measured import FLOORS, Measured
from tap.paper.profiles import MEND
from tap.paper.tables.latex import MISSING, count, escape
from tap.paper.units import points_of, text_of_score
from tap.task_facts import TASKS, Metric

SMOKE_NOTE = "Smoke scale: these numbers mean nothing; they only show that the workflow runs."

DATASETS = {
    "fashion_mnist": "Fashion-MNIST",
    "imagenet": "ImageNet-1K",
    "microscopy": "labelled microscopy frames",
    "ade20k": "ADE20K",
    "fashion_scenes": "scenes composed of Fashion-MNIST garments",
    "coco": "COCO",
}

_MISSED = 0.05

_START = {
    "scratch": "random weights",
    "pretrained": "the pre-trained weights",
    "dense": "a training without pruning of the same seed, common to all",
}


def main_caption(
    title: str, measured: Measured, methods: Sequence[str], scale: str, name: str, speeds: Sequence[str] = ()
) -> list[str]:
    """Caption of a main table, as sentences in LaTeX.

    Args:
        title: the task in words.
        measured: what the runs measured.
        methods: rows of the table.
        scale: ``smoke``, ``desk`` or ``paper``.
        name: stem of the table's files.
        speeds: what is to be said of the throughput.
    """
    data = ", ".join(DATASETS.get(item, item) for item in measured.facts("dataset")) or "no data yet"
    points = points_of(_score(measured)) if len(measured.frame) else "points"
    parts = [
        rf"{title} on {escape(data)} at $\rho={measured.rate:g}$, measured at scale \texttt{{{escape(scale)}}}.",
        *([rf"\textbf{{{SMOKE_NOTE}}}"] if scale == "smoke" else []),
        f"Parentheses give changes from no pruning in {points}, and throughput as a multiple of the dense encoder "
        "on the same kernel in the same process (of no pruning itself: the noise of that measurement).",
        *speeds,
        "Size/add. lists the no-pruning model once and then each method's addition at inference, counted from the "
        "built models.",
        *_shared_parameters(measured, methods),
        *_only_in_training(measured, methods),
        _where(measured),
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
            f"No pruning ({text_of_score(metric, dense.mean)}) is not above every floor by an interval without zero: "
            "that the head gains from a trained encoder is not shown. So differences between methods tell what is lost "
            "with the patches that they remove, not whether they tell learned features apart."
        )
    return sentences


def _score(measured: Measured) -> Metric:
    return TASKS[str(measured.frame["task"].iloc[0])].score


def profile_sentences(evidence: Evidence, task: str) -> list[str]:
    """Where the throughput of a task was measured and how, in LaTeX, or what measures it."""
    found = []
    for shapes in dict.fromkeys((evidence.profiled_shapes, evidence.own_shapes)):
        profile = evidence.profile(task, shapes)
        whose = "this scale's own model" if shapes == evidence.own_shapes else "a model of the paper's shapes"
        if profile is None:
            found.append(escape(f"Throughput of {whose} has not been measured here: {MEND} does."))
        else:
            found.append(escape(f"Throughput of {whose} with random weights: {profile.words()}."))
    return found


def speeds_note(evidence: Evidence) -> str:
    """Machine and protocol of the profiles of all tasks, or what measures what is missing; plain text."""
    shown = {task: evidence.profile(task, evidence.profiled_shapes) for task in evidence.settings.tasks}
    found = [
        f"Speed and memory of {task}: {profile.words()}." for task, profile in shown.items() if profile is not None
    ]
    if absent := [task for task, profile in shown.items() if profile is None]:
        found.append(f"Speed and memory of {', '.join(absent)} have not been measured here: {MEND} does.")
    return " ".join(found)


def _where(measured: Measured) -> str:
    """Devices of the evaluations."""
    found = measured.facts("device")
    return f"Evaluated on {escape(', '.join(found))}." if found else ""


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
        f"Means over {len(seeds)} seeds; {escape(name)}.csv has the value of each, the standard deviations and the "
        "paired bootstrap intervals of the changes over seeds and units (images, or the places that these show)."
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


def _shared_parameters(measured: Measured, methods: Sequence[str]) -> list[str]:
    """Names the methods whose tasks share parameters, which are charged to none of them."""
    found = {method: measured.value(method, "parameters_shared") for method in methods}
    return [
        f"The addition of {escape(method)} is a task's own; {count(value.mean)} parameters of readouts that all tasks "
        "share are charged to none."
        for method, value in found.items()
        if value is not None
    ]


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
