"""LaTeX of a table: escaping, numbers as the paper prints them, booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "--"
DAGGER = r"$^\dagger$"
NOT_IN_PAPER = r"$^\ddagger$"

_SYMBOLS = {
    "\u03b1": r"$\alpha$",
    "\u03b4": r"$\delta$",
    "\u03c0": r"$\pi$",
    "\u03c1": r"$\rho$",
    "\u03c4": r"$\tau$",
    "\u2261": r"$\equiv$",
    "\U0001d4db": r"$\mathcal{L}$",
}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


@dataclass(frozen=True)
class Tabular:
    """A table that can be typeset.

    Attributes:
        label: LaTeX label, such as ``tab:cls``.
        caption: LaTeX of the caption.
        heads: LaTeX of the column heads; the first column is set left, the others centred.
        groups: rows between midrules, each a list of LaTeX cells.
        origin: where the numbers came from, for a comment at the top.
        tight: whether the columns need less space between them.
        widths: of the last columns, as shares of the line; None sets one centred, as wide as its content.
    """

    label: str
    caption: str
    heads: Sequence[str]
    groups: Sequence[Sequence[Sequence[str]]]
    origin: str
    tight: bool = False
    widths: Sequence[float | None] = ()

    def render(self) -> str:
        """The table environment; needs only the package booktabs."""
        body = "\n\\midrule\n".join("\n".join(_row(row) for row in group) for group in self.groups)
        lines = [
            f"% {self.origin}",
            r"\begin{table}[tb]",
            r"\centering",
            *([r"\setlength{\tabcolsep}{2.0pt}"] if self.tight else []),
            r"{\small",
            rf"\begin{{tabular}}{{{self._columns()}}}",
            r"\toprule",
            _row(self.heads),
            r"\midrule",
            body,
            r"\bottomrule",
            r"\end{tabular}",
            "}",
            rf"\caption{{{self.caption}}}",
            rf"\label{{{self.label}}}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def _columns(self) -> str:
        """The first column is set left."""
        others = len(self.heads) - 1
        widths = [*[None] * (others - len(self.widths)), *self.widths][-others:] if others else []
        return "l" + "".join("c" if width is None else rf"p{{{width:g}\linewidth}}" for width in widths)


def escape(text: str) -> str:
    """Plain text as LaTeX. The script l of a norm and the symbols of the paper's rows are kept; other characters
    outside ASCII are dropped."""
    parts = re.split(f"(\u2113\\d|[{''.join(_SYMBOLS)}])", text)
    return "".join(_symbol(part) or _escape_ascii(part) for part in parts)


def _symbol(part: str) -> str | None:
    return rf"$\ell_{part[1]}$" if part[:1] == "\u2113" else _SYMBOLS.get(part)


def _escape_ascii(text: str) -> str:
    ascii_only = text.encode("ascii", "ignore").decode()  # old engines refuse the rest
    return re.sub(r"[\\&%$#_{}~^<>]", lambda match: _SPECIAL[match.group()], ascii_only)


def score(value: float) -> str:
    """A score in percent: one place."""
    return f"{value:.1f}"


def signed(value: float) -> str:
    """A change in points: one place, always with its sign, except zero."""
    text = f"{abs(value):.1f}"
    if float(text) == 0:
        return text
    return f"$-${text}" if value < 0 else f"+{text}"


def rate(value: float) -> str:
    """Images per second: whole from 100 on, else one place, below 1 two."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def ratio(value: float) -> str:
    """A multiplier: two places."""
    return rf"{value:.2f}$\times$"


def count(value: float) -> str:
    """A number of parameters: 132M, 86.6M, 2.3K, 290."""
    for size, suffix in ((1e6, "M"), (1e3, "K")):
        if value >= size * 0.99995:
            scaled = value / size
            return f"{scaled:.0f}{suffix}" if scaled >= 99.95 else f"{scaled:.1f}{suffix}"
    return f"{value:.0f}"


def bold(text: str) -> str:
    """Bold text."""
    return rf"\textbf{{{text}}}"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
