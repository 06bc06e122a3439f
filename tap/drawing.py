"""Figures and pictures look as this project says, not as the matplotlibrc of whoever draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl


@contextmanager
def default_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Context in which a figure is made and saved: matplotlib's own defaults, with these changes and no others."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(dict(changes or {}))
        yield
