"""The document as one page that needs nothing beside it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from tap.paper.audit.beside import Line
from tap.paper.document.contents import FigurePart, Part, TablePart, stem_of_label
from tap.paper.tables.caption import SMOKE_NOTE

_STYLE: Final = """
body { font: 15px/1.45 Georgia, serif; margin: 2rem auto; max-width: 1250px; padding: 0 1rem; color: #1a1a1a; }
section { border-top: 1px solid #ccc; padding: 1rem 0; } h2 { font-size: 1.1rem; margin: 0 0 .3rem; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 2rem; overflow-x: auto; }
.pair > div { overflow-x: auto; } table { border-collapse: collapse; font-size: 12.5px; }
th, td { padding: .15rem .5rem; text-align: right; } th:first-child, td:first-child { text-align: left; }
thead th { border-top: 1.5px solid; border-bottom: 1px solid; } tbody tr:last-child td { border-bottom: 1.5px solid; }
tr.rule td { border-top: 1px solid #999; } .own td:first-child { font-style: italic; }
h3 { font-size: .9rem; margin: .3rem 0; } .reading { font-weight: 600; } figure { margin: 0; } img { max-width: 100%; }
.note { color: #7d5600; font-weight: 600; } td.none { color: #888; }
@media (max-width: 800px) { .pair { grid-template-columns: 1fr; } }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e4e6ea; } img { background: white; } }
"""


def to_html(parts: Sequence[Part], scale: str) -> str:
    """The page.

    Args:
        parts: what it shows, in order.
        scale: whose results.
    """
    note = f'<p class="note">{escape(SMOKE_NOTE)}</p>' if scale == "smoke" else ""
    links = " ".join(f'<a href="#{stem_of_label(part.label)}">{escape(part.label)}</a>' for part in parts)
    body = "\n".join(_table(part) if isinstance(part, TablePart) else _figure(part) for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tables and figures at scale {escape(scale)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Tables and figures at scale {escape(scale)}, beside the printed ones</h1>{note}\n"
        "<p>In the order of the paper. Left: what is known here; a dash has not been measured. Right: what the paper "
        f"prints. Rows in italics are not in the paper.</p>\n<nav>{links}</nav>\n{body}\n</body></html>\n"
    )


def _table(part: TablePart) -> str:
    beside = part.beside
    heads = [column.printed for column in beside.columns]
    ours = _rows(heads, beside.lines, lambda cell: None if cell[1] is None else cell[1].text)
    printed = [line for line in beside.lines if line.in_paper]
    theirs = _rows(heads, printed, lambda cell: cell[0] or None) if printed else "<p>The paper does not have it.</p>"
    return (
        f'<section id="{stem_of_label(part.label)}"><h2>{escape(part.label)}</h2>'
        f'<p>{escape(beside.caption)}</p><p class="reading">{escape(part.reading)}</p>'
        f'<div class="pair"><div><h3>Here</h3>{ours}</div><div><h3>Printed</h3>{theirs}</div></div></section>'
    )


def _rows(heads: Iterable[str], lines: Sequence[Line], text) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *heads))
    rows, group = [], lines[0].group if lines else 0
    for line in lines:
        kinds = " ".join(name for name, holds in (("rule", line.group != group), ("own", not line.in_paper)) if holds)
        group = line.group
        cells = [text(cell) for cell in line.cells]
        shown = "".join('<td class="none">&ndash;</td>' if one is None else f"<td>{escape(one)}</td>" for one in cells)
        rows.append(f'<tr class="{kinds}"><td>{escape(line.name)}</td>{shown}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _figure(part: FigurePart) -> str:
    picture = ""
    if part.png is not None:
        data = base64.b64encode(part.png.read_bytes()).decode("ascii")
        words = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in part.caption)
        picture = f'<figure><img alt="{escape(part.label)}" src="data:image/png;base64,{data}"></figure>{words}'
    return (
        f'<section id="{stem_of_label(part.label)}"><h2>{escape(part.label)}</h2>'
        f'<p class="reading">{escape(part.reading)}</p>{picture}</section>'
    )
