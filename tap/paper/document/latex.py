"""The document as LaTeX on A4: each measured table beside the printed one, each figure, one line on each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tap.paper.audit.beside import Line, TableBeside
from tap.paper.document.contents import FigurePart, Part, TablePart, stem_of_label
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.latex import MISSING, escape

_PREAMBLE: Final = r"""\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage[landscape,margin=14mm]{geometry}
\usepackage{amsmath,booktabs,graphicx}
\usepackage[hidelinks,bookmarksopen]{hyperref}
\ifdefined\pdftrailerid\pdftrailerid{}\fi % equal sources are equal files
\setlength{\parindent}{0pt}
\raggedbottom
\newsavebox{\ours}\newsavebox{\theirs}\newsavebox{\both}
\newlength{\most}\setlength{\most}{0.84\textheight}
% A box that shrinks to the line and to the page, and never grows.
\newcommand{\fitted}[1]{\sbox{\both}{#1}%
  \ifdim\wd\both>\linewidth\sbox{\both}{\resizebox{\linewidth}{!}{\usebox{\both}}}\fi
  \ifdim\dimexpr\ht\both+\dp\both>\most\sbox{\both}{\resizebox*{!}{\most}{\usebox{\both}}}\fi
  \usebox{\both}}
\newcommand{\titled}[2]{\begin{tabular}[t]{@{}l@{}}\textit{#1}\\[3pt]#2\end{tabular}}
% Side by side where little shrinking is enough, else one below the other.
\newcommand{\pair}[2]{\sbox{\ours}{\titled{Here}{#1}}\sbox{\theirs}{\titled{Printed}{#2}}%
  \ifdim\dimexpr\wd\ours+\wd\theirs+8mm>1.3\linewidth
    \fitted{\usebox{\ours}}\par\medskip\fitted{\usebox{\theirs}}%
  \else\fitted{\usebox{\ours}\hspace{8mm}\usebox{\theirs}}\fi\par}
\begin{document}
"""

_TABULAR: Final = re.compile(r"\\begin\{tabular\}.*?\\end\{tabular\}", re.DOTALL)
_CAPTION: Final = re.compile(r"\\caption\{(.*)\}\n\\label", re.DOTALL)
_WORDY: Final = 24
"""Characters from which on a cell is text, whose column is as wide as its share of all text of the row."""


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
        r"In the order of the paper. \textit{Here} is what is known at this scale; -- has not been measured. "
        r"\textit{Printed} is what the paper says.\par",
    ]
    for part in parts:
        lines += _table(part) if isinstance(part, TablePart) else _figure(part)
    return "\n".join([line for line in lines if line] + [r"\end{document}", ""])


def _head(part: Part) -> list[str]:
    """What begins a part: a rule, its label, for the outline too, and the line on it."""
    label = escape(part.label)
    return [
        "",
        r"\bigskip\begin{minipage}{\linewidth}\hrule\medskip",
        rf"\pdfbookmark[1]{{{label}}}{{{stem_of_label(part.label)}}}"
        rf"\textbf{{{label}}}\quad\textit{{{_words(part.reading)}}}\par\smallskip",
    ]


def _table(part: TablePart) -> list[str]:
    ours = _TABULAR.search(part.tex)
    caption = _CAPTION.search(part.tex)
    here = _top(ours.group(0)) if ours else "Not made at this scale."
    printed = _printed(part.beside) or "The paper does not have it."
    return [
        *_head(part),
        rf"\small\pair{{{here}}}{{{printed}}}",
        r"\end{minipage}\par",
        *([rf"\nopagebreak\smallskip{{\footnotesize {caption.group(1)}\par}}"] if caption else []),
    ]


def _top(tabular: str) -> str:
    """A tabular that stands beside another by its first line."""
    return tabular.replace(r"\begin{tabular}", r"\begin{tabular}[t]", 1)


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
    body = "\n".join(rows)
    tabular = f"\\begin{{tabular}}{{{_layout(lines)}}}\n\\toprule\n{heads} \\\\\n\\midrule\n{body}\n\\bottomrule\n"
    return _top(f"{tabular}\\end{{tabular}}")


def _layout(lines: Sequence[Line]) -> str:
    """Columns of a tabular: numbers are centred; text is broken, in as much of the line as its column has of it."""
    widest = [
        max(len(cells[place][0]) for cells in (line.cells for line in lines)) for place in range(len(lines[0].cells))
    ]
    text = sum(width for width in widest if width >= _WORDY)
    shares = [f"p{{{min(0.75 * width / text, 0.5):.2f}\\linewidth}}" if width >= _WORDY else "c" for width in widest]
    return "l" + "".join(shares)


def _figure(part: FigurePart) -> list[str]:
    if part.pdf is None:
        return [*_head(part), r"\end{minipage}\par"]
    return [
        *_head(part),
        rf"\fitted{{\includegraphics[scale=1.3]{{{_name(part.pdf)}}}}}\par",
        r"\end{minipage}\par",
        rf"\nopagebreak\smallskip{{\footnotesize {_words(' '.join(part.caption))}\par}}",
    ]


def _name(path: Path) -> str:
    """A picture beside the folder of the document."""
    return f"../figures/{path.name}"


_SIGNS: Final = {
    "\u00d7": r"$\times$", "\u2013": "--", "\u2192": r"$\to$", "\u2208": r"$\in$", "\u2264": r"$\leq$",
    "\u2265": r"$\geq$", "\u2212": "$-$", "\u2020": r"$^\dagger$", "\u00b1": r"$\pm$", "\u2019": "'",
    "\u0394": r"$\Delta$",
}  # fmt: skip


def _words(text: str) -> str:
    """Text for LaTeX, with the signs that printed tables and captions have beside ASCII."""
    parts = re.split(f"([{''.join(_SIGNS)}])", text)
    return "".join(_SIGNS.get(part) or escape(part) for part in parts)
