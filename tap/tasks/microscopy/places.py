"""Which tiles show the same place: what a bootstrap must draw together.

Validation tiles are views of a few places in consecutive frames and focal planes, so two of one place say little more
than one of them. A place is a cell of a grid over the recording's frame, as large as a tile, and a tile belongs to the
cell that holds its centre. Tiles of neighbouring cells may still share a rim.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tap.config.data import DataConfig
from tap.errors import UserError
from tap.task_facts import MICROSCOPY
from tap.tasks.microscopy.frames import RECORDINGS
from tap.tasks.microscopy.tiles import TILE

_NAME: Final = re.compile(r"(?P<recording>[a-z]+)_t\d+_z\d+_y(?P<top>\d+)_x(?P<left>\d+)")
_RECORDINGS: Final = [recording.name for recording in RECORDINGS]
_ROOM: Final = 1000


def places_of(data: DataConfig) -> Callable[[str], int] | None:
    """`place_of` for the images of microscopy; None for a data set whose images stand for themselves."""
    return place_of if data.name == MICROSCOPY.name else None


def place_of(name: str) -> int:
    """Number of the place that a tile shows: recording, row and column of the cell, three digits each.

    Args:
        name: of the tile's file, without suffix.

    Raises:
        UserError: it is no tile's name.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["recording"] not in _RECORDINGS:
        raise UserError(f"{name}: is no name of a microscopy tile; prepare the data again (`tap data prepare seg`)")
    row, column = ((int(match[side]) + TILE // 2) // TILE for side in ("top", "left"))
    return (_RECORDINGS.index(match["recording"]) * _ROOM + row) * _ROOM + column
