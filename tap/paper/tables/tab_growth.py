"""`tab:growth`: time and memory of TAP beside the dense encoder against patches, batch and keep rate."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.growth import MATTERS, matters_from, points
from tap.paper.profiles import MEND
from tap.paper.reported import Column, Row
from tap.paper.tables.table import Cells, Content, Head, Table, known, stated

READS = "profiles"
NUMBERS = ("ms", "dense_ms", "speedup", "peak_mib", "dense_peak_mib", "matching_percent")
SIZES = ("patches", "batch", "rate")


def cells(evidence: Evidence) -> Cells:
    """A row for each size."""
    profile = evidence.profile("growth", evidence.profiled_shapes)
    found: dict[tuple[str, str], Content | None] = {}
    for key, point in points(profile).items():
        assert profile is not None
        found |= {(key, size): stated(f"{point[size]:g}") for size in SIZES}
        found |= {(key, name): profile.of(point[name]) for name in NUMBERS if name in point}
    return known(found)


def row(key: str) -> Row:
    """Named by what grows."""
    return Row(key, key.partition(":")[0])


def note(evidence: Evidence) -> str:
    """What was measured, and from where matching matters."""
    profile = evidence.profile("growth", evidence.profiled_shapes)
    if profile is None:
        return f"It has not been measured here: {MEND.partition(',')[0]} does."
    width = profile.content["about"]["protocol"]["width"]
    start = matters_from(profile)
    matching = (
        f"Matching takes less than {MATTERS:g} % of a pass up to the largest size"
        if start is None
        else f"Matching takes {MATTERS:g} % of a pass or more from {start:,} patches on"
    )
    return (
        f"Encoder of width {width} with global attention and four read points: {profile.device}; "
        f"{profile.content['about']['protocol']['dtype']}. Memory is that of a pass without weights. {matching}; "
        "it never holds more than 256 MB of similarities of an image."
    )


TABLE = Table(
    "Growth of time and memory of TAP-J beside the dense encoder",
    (
        Head("Patches", ("patches",)),
        Head("Batch", ("batch",)),
        Head(r"$\rho$", ("rate",)),
        Head("ms/im.", ("ms", "dense_ms")),
        Head("Speed-up", ("speedup",)),
        Head("MiB", ("peak_mib", "dense_peak_mib")),
        Head(r"Matching (\%)", ("matching_percent",)),
    ),
    cells,
    first="Grows",
    words=SIZES,
    columns=(
        *(Column(size, size, "text") for size in SIZES),
        Column("ms", "ms per image, TAP-J", "ms"),
        Column("dense_ms", "ms per image, dense", "ms"),
        Column("speedup", "Speed-up", "ratio"),
        Column("peak_mib", "MiB, TAP-J", "MiB"),
        Column("dense_peak_mib", "MiB, dense", "MiB"),
        Column("matching_percent", "Matching", "percent"),
    ),
    row=row,
    note=note,
)
