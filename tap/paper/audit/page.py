"""The audit as one HTML page that needs no network: style, script, data and pictures are all inside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from tap.paper.audit.audit import UNTRUSTED, Audit
from tap.paper.audit.beside import Ours
from tap.paper.audit.chain import Link
from tap.paper.audit.outcome import Verdict
from tap.paper.audit.report import HOW_TO_READ, MARKS, shown_score
from tap.paper.consistency.report import show
from tap.paper.html import data_uri, embedded, templates_in
from tap.paper.names import title_of
from tap.paper.tables.caption import SMOKE_NOTE

FOLDER = Path(__file__).with_name("page")
SOURCES = {
    "claim-map": "The seven central claims (tab:claim-map)",
    "abstract": "The abstract",
    "text": "The text",
}


def to_html(audit: Audit) -> str:
    """The page."""
    environment = templates_in(FOLDER)
    environment.filters["upper_first"] = lambda text: text[:1].upper() + text[1:]
    numbers: list[dict[str, Any]] = []
    return environment.get_template("page.html.j2").render(
        audit=audit,
        tables=audit.tables,
        verdicts=[
            {
                "name": v,
                "slug": v.name.lower().replace("_", "-"),
                "mark": MARKS[v],
                "count": audit.count(v),
                "meaning": HOW_TO_READ[v],
            }
            for v in Verdict
        ],
        slug=lambda verdict: verdict.name.lower().replace("_", "-"),
        marks=MARKS,
        untrusted=UNTRUSTED,
        groups=[
            (title, [item for item in audit.judgements if item.claim.source == key]) for key, title in SOURCES.items()
        ],
        smoke_note=SMOKE_NOTE if audit.scale == "smoke" else "",
        cell=lambda ours, title: _cell(ours, title, numbers),
        outcome_index=lambda outcome, title: _outcome(outcome, title, numbers),
        figures=[(figure, _picture(figure.path)) for figure in audit.figures],
        show=show,
        shown_score=shown_score,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup((FOLDER / "script.js").read_text(encoding="utf-8")),
        data=lambda: embedded({"numbers": numbers, "links": {key: _link(link) for key, link in audit.chain.items()}}),
    )


def _cell(ours: Ours, title: str, numbers: list[dict[str, Any]]) -> int:
    """Position of a table's number among the numbers that can be walked back."""
    numbers.append(
        {
            "title": title,
            "text": ours.text,
            "unit": ours.unit,
            "sd": ours.sd,
            "low": ours.low,
            "high": ours.high,
            "seeds": ours.seeds,
            "devices": [ours.device] if ours.device else [],
            "runs": list(ours.runs),
        }
    )
    return len(numbers) - 1


def _outcome(outcome: Any, title: str, numbers: list[dict[str, Any]]) -> int:
    text = "" if outcome.value is None else f"{outcome.value:.4g}"
    numbers.append(
        {
            "title": title,
            "text": text,
            "unit": "",
            "sd": None,
            "low": outcome.low,
            "high": outcome.high,
            "seeds": len(outcome.seeds),
            "devices": list(outcome.devices),
            "runs": list(outcome.runs),
        }
    )
    return len(numbers) - 1


def _link(link: Link) -> dict[str, Any]:
    return {
        "name": title_of(link.id),
        "folder": link.folder,
        "metrics": link.metrics,
        "records": link.records,
        "before": list(link.before),
    }


def _picture(path: Path) -> str:
    return data_uri(path.read_bytes(), "svg+xml" if path.suffix == ".svg" else "png")
