"""The document as LaTeX on A4: each measured table beside the printed one, each figure, one line on each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tap.paper.audit.beside import TableBeside
from tap.paper.document.contents import FigurePart, Part, TablePart
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.latex import MISSING, escape

_PREAMBLE: Final = r"""\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[landscape,margin=14mm]{geometry}
\usepackage{amsmath,booktabs,graphicx,adjustbox}
\setlength{\parindent}{0pt}
\begin{document}
"""

_TABULAR: Final = re.compile(r"\\begin\{tabular\}.*?\\end\{tabular\}", re.DOTALL)
_CAPTION: Final = re.compile(r"\\caption\{(.*)\}\n\\label", re.DOTALL)


def to_latex(parts: Sequence[Part], scale: str) -> str:
    """The source of the document; figures are named by their paths, relative to the folder that it is compiled in.

    Args:
        parts: what it shows, in order.
        scale: whose results.
    """
    note = rf"\textbf{{{SMOKE_NOTE}}}\par" if scale == "smoke" else ""
    lines = [
        _PREAMBLE,
        rf"{{\Large Tables and figures at scale \texttt{{{escape(scale)}}}, beside the printed ones}}\par\medskip",
        note,
        r"In the order of the paper. Left: what is known here. Right: what the paper prints.\par",
    ]
    for part in parts:
        lines += _table(part) if isinstance(part, TablePart) else _figure(part)
    return "\n".join([line for line in lines if line] + [r"\end{document}", ""])


def _head(part: Part) -> list[str]:
    return [
        "",
        r"\bigskip\hrule\medskip",
        rf"\textbf{{{escape(part.label)}}}\quad\textit{{{_words(part.reading)}}}\par\smallskip",
    ]


def _table(part: TablePart) -> list[str]:
    ours = _TABULAR.search(part.tex)
    caption = _CAPTION.search(part.tex)
    left = _fitted(ours.group(0)) if ours else "Not made at this scale."
    printed = _printed(part.beside)
    right = _fitted(printed) if printed else "The paper does not have it."
    return [
        *_head(part),
        r"\begin{minipage}[t]{0.55\linewidth}\vspace{0pt}\small",
        left,
        *([rf"\par\smallskip{{\footnotesize {caption.group(1)}\par}}"] if caption else []),
        r"\end{minipage}\hfill",
        r"\begin{minipage}[t]{0.42\linewidth}\vspace{0pt}\small",
        right,
        r"\end{minipage}\par",
    ]


def _fitted(tabular: str) -> str:
    """A tabular that shrinks to the width of its place, and never grows."""
    return (
        f"\\begin{{adjustbox}}{{max width=\\linewidth,max totalheight=0.85\\textheight}}\n{tabular}\n\\end{{adjustbox}}"
    )


def _printed(beside: TableBeside) -> str:
    """The printed numbers as a tabular; empty for a table that the paper does not have."""
    lines = [line for line in beside.lines if line.in_paper]
    if not lines:
        return ""
    rows, group = [], lines[0].group
    for line in lines:
        rows += [r"\midrule"] if line.group != group else []
        group = line.group
        cells = [_words(theirs) if theirs else MISSING for theirs, _ in line.cells]
        rows.append(" & ".join([_words(line.name), *cells]) + r" \\")
    heads = " & ".join(["", *(_words(column.printed) for column in beside.columns)])
    layout = "l" + "c" * len(beside.columns)
    body = "\n".join(rows)
    return f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{heads} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}"


def _figure(part: FigurePart) -> list[str]:
    if part.pdf is None:
        return _head(part)
    return [
        *_head(part),
        rf"\includegraphics[width=0.9\linewidth,height=0.7\textheight,keepaspectratio]{{{_name(part.pdf)}}}\par",
        rf"{{\footnotesize {_words(' '.join(part.caption))}\par}}",
    ]


def _name(path: Path) -> str:
    """A picture beside the folder of the document."""
    return f"../figures/{path.name}"


_ASCII: Final = {
    "\u00d7": "x", "\u2013": "--", "\u2192": "->", "\u2208": "in", "\u2265": ">=", "\u2212": "-", "\u2020": "+",
    "\u00b1": "+-", "\u2261": "=", "\u2019": "'",
}  # fmt: skip


def _words(text: str) -> str:
    """Text for LaTeX; what its fonts lack is spelled in ASCII."""
    return escape("".join(_ASCII.get(letter, letter) for letter in text))
