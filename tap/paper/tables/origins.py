"""Where baselines come from, for `tab:baseline-provenance` and `tab:dense-baseline-provenance`."""

from __future__ import annotations

from tap.config.methods import ORIGINS
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Content, stated


def origins(evidence: Evidence, tasks: tuple[str, ...], column: str) -> Cells:
    """Source of every published method of some tasks, and what it does there.

    Args:
        evidence: whose settings.
        tasks: the tasks.
        column: `path` (in classification) or `readout` (in dense tasks).
    """
    found: dict[tuple[str, str], Content] = {}
    for method, origin in ORIGINS.items():
        if not getattr(origin, column):
            continue
        found[method, "source"] = stated(origin.source)
        adapted = origin.adapted if column == "path" else (*origin.adapted, *origin.adapted_dense)
        parts = [getattr(origin, column), *adapted, *_settings(evidence, method, tasks)]
        found[method, column] = stated("; ".join(parts))
    return found


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
