"""`tab:baseline-provenance` and `tab:dense-baseline-provenance`: from the record of each method's origin."""

from __future__ import annotations

from tap.config.methods import ORIGINS
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.tables.plain import Cells, Head, PlainTable


def classification(evidence: Evidence) -> Cells:
    """Source and path of every published classification method."""
    return _cells(evidence, "tab:baseline-provenance", ("cls",), "path")


def dense(evidence: Evidence) -> Cells:
    """Source and readout of every published method of the dense tasks."""
    return _cells(evidence, "tab:dense-baseline-provenance", ("seg", "det"), "readout")


def _cells(evidence: Evidence, label: str, tasks: tuple[str, ...], column: str) -> Cells:
    cells: dict[tuple[str, str], str] = {}
    for row in load_reported(label).rows:
        origin = ORIGINS[row.key]
        cells[row.key, "source"] = origin.source
        adapted = origin.adapted if column == "path" else (*origin.adapted, *origin.adapted_dense)
        parts = [getattr(origin, column), *adapted, *_settings(evidence, row.key, tasks)]
        cells[row.key, column] = "; ".join(parts)
    return cells


def _settings(evidence: Evidence, method: str, tasks: tuple[str, ...]) -> list[str]:
    """The settings of a method in use, in the tasks of the scale whose table has it; each text once."""
    found = []
    for task in tasks:
        settings = evidence.settings.tasks.get(task)  # type: ignore[call-overload]
        options = None if settings is None or method not in settings.methods else settings.options.of(method)
        if options is not None:
            values = options.model_dump(mode="json", exclude_none=True)
            found.append("settings: " + ", ".join(f"{name}={_plain(value)}" for name, value in values.items()))
    return list(dict.fromkeys(found))


def _plain(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value).lower()


TABLES = (
    PlainTable(
        "tab:baseline-provenance",
        (),
        "Where the classification baselines come from, and what differs from their public code",
        (Head("Source", ("source",), width=0.27), Head("Classification path", ("path",), width=0.5)),
        classification,
    ),
    PlainTable(
        "tab:dense-baseline-provenance",
        (),
        "Where the baselines of the dense tasks come from, and what differs from their public code",
        (Head("Source", ("source",), width=0.27), Head("Dense readout and adaptation", ("readout",), width=0.5)),
        dense,
    ),
)
