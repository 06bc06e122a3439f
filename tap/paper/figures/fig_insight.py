"""`fig:insight`: depth, tasks, rankings and recovery endpoints in four panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tap.config.methods import SCORES
from tap.paper.estimate import Derived
from tap.paper.evidence import Evidence
from tap.paper.figures.captions import UNCERTAIN, drop_words
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import blocks, criteria_handles, curve, drops_by_block, handle, mark, missing
from tap.paper.figures.probe_data import ATTENTION, COVERAGE, IN_PAPER, drops, framed, line, runs_of, spread
from tap.paper.figures.style import CRITERIA, OTHERS, TASKS, TEXT_WIDTH
from tap.paper.probe_results import correlation
from tap.paper.tidy_probes import LAYERS, RECOVERY
from tap.paper.units import axis_of
from tap.task_facts import DENSE_TASKS, METRICS
from tap.task_facts import TASKS as FACTS

READS = "probes"

_PAIR = tuple(task for task in DENSE_TASKS if task in IN_PAPER)
"""Tasks whose rankings are set against each other."""
_BARS = {
    (task, metric.name): f"{task.title()}\n{metric.title}" for task in DENSE_TASKS for metric in FACTS[task].metrics
}
_ENDPOINTS = {"full offset": "", "stand-in": "//////"}
_ALPHAS = {1.0: "full offset", 0.0: "stand-in"}
_WORDS = (
    f"{drop_words(METRICS.values())} (a) Classification: drop in top-1 accuracy by block; grey: the other criteria. "
    "(b) Drop with attention minus drop with coverage by block, mIoU and box AP; above zero coverage loses less. "
    "(c) A point per criterion: mean drops over the probed blocks of segmentation and detection, with Spearman's rank "
    "correlation of the criteria and its interval, for which the images of both tasks are resampled independently. "
    "(d) Mean drop over the probed blocks and checkpoints with the full offset (filled) and with the stand-in "
    "alone (hatched).",
    f"Bands (attention and coverage in (a), both curves of (b)), brackets in (c) and error bars in (d): {UNCERTAIN}",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """The four panels of the paper's first figure."""
    return framed(_lines(evidence))


def _lines(evidence: Evidence) -> Iterator[dict]:
    cls = evidence.probe("cls", LAYERS)
    if cls is not None:
        yield from drops(cls, "a")
    shown = _of_one_unit([task for task in DENSE_TASKS if task in evidence.settings.tasks])
    dense = [probe for task in shown if (probe := evidence.probe(task, LAYERS)) is not None]
    for probe in dense:
        metric = SCORES[probe.task][0]
        if {ATTENTION, COVERAGE} <= set(probe.criteria):
            for layer in probe.layers:
                gap = probe.drop(ATTENTION, metric, [layer]) - probe.drop(COVERAGE, metric, [layer])
                yield line("b", probe, metric, "attention - coverage", layer, gap)
    means = [probe.mean_drops(SCORES[probe.task][0]) for probe in dense]
    for probe, mean in zip(dense, means, strict=True):
        for name, drop in mean.items():
            yield line("c", probe, SCORES[probe.task][0], name, 0, drop)
    if tuple(probe.task for probe in dense[:2]) == _PAIR:
        common = [name for name in means[0] if name in means[1]]
        value, bounds = correlation(*([part[name] for name in common] for part in means[:2]))
        found = line("c", dense[0], "", "rank correlation", 0, Derived(value, None))
        known = {} if bounds is None else {"low": bounds.low, "high": bounds.high}
        runs = " ".join((*found["runs"].split(), *runs_of(dense[1])))
        yield {**found, "task": ", ".join(_PAIR), "runs": runs, **known}
    for task in shown:
        recovery = evidence.probe(task, RECOVERY)
        for metric in SCORES[task] if recovery is not None else ():
            assert recovery is not None
            for alpha, name in _ALPHAS.items():
                criterion = recovery.criteria[0]
                drop = recovery.drop(criterion, metric, recovery.layers, alpha)
                yield line("d", recovery, metric, name, 0, drop, spread(recovery, criterion, metric, alpha))


def _of_one_unit(tasks: Sequence[str]) -> list[str]:
    """The tasks whose scores share an axis with that of the first; `fig:all-probes` has a panel for every task."""
    return [task for task in tasks if axis_of(FACTS[task].score) == axis_of(FACTS[tasks[0]].score)]


def _unit(frame: pd.DataFrame) -> str:
    """What the axes of the dense tasks call their unit."""
    known = [METRICS[name] for name in frame["metric"].unique() if name in METRICS]
    return axis_of(known[0]) if known else "pp"


def draw(frame: pd.DataFrame) -> Figure:
    """Four panels side by side.

    Args:
        frame: what `data` gives.
    """
    figure = Figure(figsize=(TEXT_WIDTH, 2.1), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.04, wspace=0.04)  # type: ignore[union-attr]
    panels = figure.subplots(1, 4, width_ratios=(1.15, 1, 1, 1))
    for axes, letter, panel in zip(panels, "abcd", (_depth, _advantage, _rankings, _recovery), strict=True):
        mark(axes, letter)
        panel(axes, frame[frame["panel"] == letter])
    shown = [task for task in TASKS if task in set(frame["task"])] or _PAIR
    samples = [*criteria_handles(points=True), *(handle(TASKS[task]) for task in shown), *_endpoint_handles()]
    figure.legend(
        handles=samples, loc="outside lower center", ncols=len(samples), handlelength=2.6, columnspacing=1.0,
        handletextpad=0.5,
    )  # fmt: skip
    return figure


def _depth(axes: Axes, frame: pd.DataFrame) -> None:
    """Classification: drops by block."""
    axes.set_ylabel("Cls top-1 drop (pp)")
    if frame.empty:
        missing(axes, "Classification")
        return
    drops_by_block(axes, frame)


def _advantage(axes: Axes, frame: pd.DataFrame) -> None:
    """Dense tasks: what attention loses more than coverage."""
    axes.set_ylabel(f"Attn. $-$ coverage ({_unit(frame)})")
    if frame.empty:
        missing(axes, "Dense tasks")
        return
    present = [task for task in TASKS if task in set(frame["task"])]
    for task in present:
        curve(axes, frame[frame["task"] == task], TASKS[task])
    blocks(axes, pd.Series([3, 6, 9, 12]) if frame["layer"].max() == 12 else frame["layer"])
    axes.axhline(0.0, color="0.4", linewidth=0.6, zorder=0)


def _rankings(axes: Axes, frame: pd.DataFrame) -> None:
    """One point per criterion: mean drops of the two dense tasks."""
    across, up = (f"{task.title()} {FACTS[task].score.title} drop (pp)" for task in _PAIR)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    points = frame[frame["series"] != "rank correlation"]
    if not set(_PAIR) <= set(points["task"]):
        lacking = " and ".join(TASKS[task].name for task in _PAIR if task not in set(points["task"]))
        missing(axes, lacking)
        return
    both = (
        points[points["task"].isin(_PAIR)].pivot(index="series", columns="task", values="value").dropna().reset_index()
    )
    others = both[~both["series"].isin(CRITERIA)]
    rest = {"color": OTHERS.colour, "marker": OTHERS.marker, "edgecolor": "0.35", "linewidth": 0.4}
    sns.scatterplot(others, x=_PAIR[0], y=_PAIR[1], **rest, s=24, ax=axes)
    for name, look in CRITERIA.items():
        one = both[both["series"] == name]
        sns.scatterplot(one, x=_PAIR[0], y=_PAIR[1], color=look.colour, marker=look.marker, s=32, ax=axes, zorder=3)
    axes.margins(0.12)
    found = frame[frame["series"] == "rank correlation"]
    if len(found) and not np.isnan(found["value"].iloc[0]):
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.3 * (high - low))  # a strip above the points for the text
        line = found.iloc[0]
        bounds = "" if np.isnan(line["low"]) else f"\n[{line['low']:.2f}, {line['high']:.2f}]"
        text = rf"$\rho_s$ = {line['value']:.2f}{bounds}".replace("-", "\u2212")
        axes.text(0.97, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7)


def _recovery(axes: Axes, frame: pd.DataFrame) -> None:
    """Mean drops with either endpoint, with the interval over images."""
    axes.set_ylabel(f"Drop ({_unit(frame)})")
    if frame.empty:
        missing(axes, "Recovery")
        return
    bars = [key for key in _BARS if ((frame["task"] == key[0]) & (frame["metric"] == key[1])).any()]
    width = 0.36
    for place, (task, metric) in enumerate(bars):
        rows = frame[(frame["task"] == task) & (frame["metric"] == metric)].set_index("series")
        for side, (name, hatch) in enumerate(_ENDPOINTS.items()):
            row, colour = rows.loc[name], TASKS[task].colour
            x = place + (side - 0.5) * (width + 0.03)
            face = colour if not hatch else "white"
            axes.bar(x, row["value"], width, color=face, edgecolor=colour, hatch=hatch, linewidth=0.8, zorder=2)
            if not np.isnan(row["low"]):
                reach = [[max(0.0, row["value"] - row["low"])], [max(0.0, row["high"] - row["value"])]]
                axes.errorbar(x, row["value"], reach, color="black", linewidth=0.7, capsize=1.5, capthick=0.7, zorder=3)
    axes.axhline(0.0, color="0.4", linewidth=0.6, zorder=0)
    axes.set_xticks(range(len(bars)), [_BARS[key] for key in bars])
    axes.set_xlim(-0.6, max(len(bars), 2) - 0.4)


def _endpoint_handles() -> list[Patch]:
    """Legend of the recovery endpoints."""
    faces = {name: "white" if hatch else "0.5" for name, hatch in _ENDPOINTS.items()}
    return [
        Patch(facecolor=faces[name], edgecolor="0.5", hatch=hatch, label=name) for name, hatch in _ENDPOINTS.items()
    ]


FIGURE = PaperFigure(data, draw, _WORDS, (LAYERS, RECOVERY))
