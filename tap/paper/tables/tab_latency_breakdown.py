"""`tab:latency-breakdown`: where the time of a pass of TAP-J goes."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.tables.caption import speeds_note
from tap.paper.tables.table import Cells, Content, Head, Table, known

READS = "profiles"
COMPONENTS = ("register", "ranking", "matching", "packing", "encoder", "reconstruction", "head")


def cells(evidence: Evidence) -> Cells:
    """Milliseconds per image, and percent of a pass without instruments, of every component and of the whole."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        profile = evidence.profile(task, evidence.profiled_shapes)
        if profile is None or "components" not in profile.content:
            continue
        for name in COMPONENTS:
            if name in ("matching", "reconstruction") and not profile.content["components"]["ms"][name]:
                continue  # a task without a dense head has none
            found |= {(name, f"{task}_{unit}"): profile.component(name, unit) for unit in ("ms", "percent")}
        found["total", f"{task}_ms"] = profile.of(profile.content["components"]["end_to_end_ms"])
        found["total", f"{task}_percent"] = profile.of(profile.content["components"]["sum_percent"])
    return known(found)


def note(evidence: Evidence) -> str:
    """What the sum of the components says, and where they were measured."""
    off = []
    for task in evidence.settings.tasks:
        profile = evidence.profile(task, evidence.profiled_shapes)
        if profile is not None and not profile.content.get("components", {"within": True})["within"]:
            off.append(f"{task} {profile.content['components']['sum_percent'] - 100:+.0f} %")
    sentences = [
        "Percent are of a pass without instruments, whose time stands in the last row beside the sum of the components."
    ]
    if off:
        sentences.append(f"The sum is further than 5 % from that pass: {', '.join(off)}.")
    return " ".join([*sentences, speeds_note(evidence)])


TABLE = Table(
    "Component latency of TAP-J at the main keep rate in ms per image",
    tuple(
        Head(rf"{title} (\%)", (f"{task}_ms", f"{task}_percent"), "()")
        for task, title in (("cls", "Cls"), ("seg", "Seg"), ("det", "Det"))
    ),
    cells,
    note=note,
)
