"""What stands beside each figure: panels, bands and bars in words, and the protocol of the probes that it shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tap.paper.evidence import Evidence
from tap.paper.figures.probe_data import IN_PAPER, unprinted
from tap.paper.statistics import DRAWS, LEVEL
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.protocol import protocol
from tap.paper.tidy_probes import LAYERS, RECOVERY
from tap.paper.units import points_of
from tap.task_facts import Metric

_KINDS: Final = {LAYERS: "Criteria at every eligible block", RECOVERY: "Recovery endpoints, coverage as the criterion"}
UNCERTAIN: Final = (
    f"{100 * LEVEL:g} % percentile intervals of a paired bootstrap over the validation images ({DRAWS:,} resamples), "
    "where the values of single images are known. They cover the choice of images, not that of checkpoints: the CSV "
    "file has the SD over checkpoints where there are several."
)


def drop_words(metrics: Iterable[Metric]) -> str:
    """What a drop in some metrics is, as they say it themselves: which way they are better, and in what unit."""
    words: dict[str, list[str]] = {}
    units: dict[str, None] = {}
    for item in metrics:
        loss = "no pruning minus the probe" if item.higher_is_better else "the probe minus no pruning"
        words.setdefault(loss, []).append(item.title)
        units[points_of(item)] = None
    parts = [loss if len(words) == 1 else f"{loss} ({', '.join(titles)})" for loss, titles in words.items()]
    return (
        f"A drop is {' or '.join(parts)} on the same images, in {' or '.join(units)}, with one block pruned and "
        "nothing trained again; below zero pruning gains."
    )


def caption(title: str, paragraphs: tuple[str, ...], kinds: tuple[str, ...], evidence: Evidence) -> str:
    """A figure's caption, in Markdown.

    Args:
        title: the figure's name.
        paragraphs: what is the same for any data.
        kinds: probes that it shows, ``layers`` or ``recovery``.
        evidence: the results.
    """
    lines = [f"# {title} at scale {evidence.scale}", ""]
    if evidence.scale == "smoke":
        lines += [f"**{SMOKE_NOTE}**", ""]
    for paragraph in paragraphs:
        lines += [paragraph, ""]
    shown, further = set(), set()
    for kind in kinds:
        probes = [probe for task in evidence.settings.tasks if (probe := evidence.probe(task, kind)) is not None]
        of_kind = [f"- {protocol(probe)} No-pruning checkpoints: {', '.join(probe.runs)}." for probe in probes]
        lines += [f"{_KINDS[kind]}:", "", *(of_kind or ["- not measured"]), ""]
        shown |= {probe.task for probe in probes}
        further |= {*unprinted(probes), *(probe.task for probe in probes if probe.task not in IN_PAPER)}
    lines += [f"Not in the paper: {', '.join(sorted(further))}.", ""] if further else []
    caveats = [evidence.caveat(task).strip() for task in evidence.settings.tasks if task in shown]
    return "\n".join([*lines, *(f"{text}\n" for text in caveats if text)])
