"""The data card of the microscopy tiles, written from the manifest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tap.tasks.microscopy.coco_annotations import SLIVER
from tap.tasks.microscopy.frames import CLASSES, PROJECT, VERSION, WHEEL_SHA256, Recording

_TEXT = """\
# Microscopy tiles

{count} grey 8-bit tiles of {tile} x {tile} pixels with semantic labels (background, nuclei, bacteria) and
instance numbers, in ADE20K's folder layout. Made by `tap data prepare seg`; do not edit.

## Origin
Three time-lapse recordings with instance masks, shipped as TIFF in the Python wheel `{project}=={version}`
(sha256 `{wheel}`). Only these files are taken from the wheel.

| recording | origin | files |
|---|---|---|
{origins}

Licence of the wheel: BSD-3-Clause (copyright 2024 Benjamin Gallusser, Martin Weigert). The recordings are the work of
those named above; cite them when you publish results on their images.

Masks whose file name says `ERR_SEG` are **reference segmentations and not guaranteed to be manual**: some cells are
missing or merged, and borders are approximate. So the scores on this data compare methods with each other; they are no
statement about cell segmentation.

## Layout
| folder | content |
|---|---|
| `images/<split>/*.png` | grey, 8 bits; the frame's 0.1th and 99.9th percentile became 0 and 255 |
| `annotations/<split>/*.png` | labels, 8 bits, as ADE20K stores them: 0 void, then the classes from 1 |
| `instances/<split>/*.png` | number of the cell, 16 bits; 0 none; the same cell has other numbers in other frames |
| `coco/instances_<split>.json` | the cells in COCO's format: boxes, run-length masks, areas, crowd flags |
| `recordings/` | the verified TIFF files |
| `manifest.json` | settings, and of each tile the hashes of its pixels, pixel counts by label, number of cells |

The name of a tile says recording, frame, focal plane, first row and first column: `hela_t03_z0_y0120_x0256.png`.

Readers with `reduce_zero_label` (MMSegmentation) see the classes as 0 to {last} and void as 255.

**Void** is what lies within {rim} pixels of the frame's edge and is not labelled, in the two fluorescence recordings:
their references leave out cells that do not reach further into the frame, so nothing is known there. In COCO's format
void is a crowd region on each side of the frame, which evaluation ignores, and so are parts of cells of fewer than
{sliver} pixels.

The nuclei of `hela` and `cho` are one class: a region of `cho` shows about five, and which of the two these are taken
for would decide a score.

## Splits
In space, with a gap of {gap} pixels, never by frame: neighbouring frames show the same cells. Rows and columns of each
region, in all frames of the recording:

{regions}

Tiles of one recording show the same cells at different times and count as independent in confidence intervals although
they are not; the percentiles of the contrast are those of whole frames. Of the tiles, three quarters lie around
cells (most of the E. coli frames is empty). Within one frame, two training tiles share at most 75 % of their
area, two others at most 60 %. {planes}

| split | recording | tiles | with cells | cells |
|---|---|---|---|---|
{counts}

Share of pixels (of those that are not void, and void of all):

| split | {class_header} | void |
|---|{rule}---|
{shares}
"""


def render(manifest: dict[str, Any], recordings: tuple[Recording, ...]) -> str:
    """The card as Markdown; the same text for the same manifest."""
    settings, tiles = manifest["settings"], manifest["tiles"]
    splits = list(dict.fromkeys(name.split("/")[0] for name in tiles))
    return _TEXT.format(
        count=len(tiles),
        tile=settings["tile"],
        project=PROJECT,
        version=VERSION,
        wheel=WHEEL_SHA256,
        origins="\n".join(f"| `{r.name}`: {r.title} | {r.origin} | `{r.image}`, `{r.mask}` |" for r in recordings),
        last=len(CLASSES) - 1,
        rim=max(r.unlabelled_rim for r in recordings),
        gap=settings["gap"],
        sliver=SLIVER,
        regions=_regions(settings["regions"]),
        planes="".join(f"Of `{r.name}`, focal planes {_listed(r.planes)} are used." for r in recordings if r.planes),
        counts=_counts(tiles),
        class_header=" | ".join(CLASSES),
        rule="---|" * len(CLASSES),
        shares="\n".join(_shares(split, tiles) for split in splits),
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _regions(regions: dict[str, dict[str, dict[str, int]]]) -> str:
    lines = ["| recording | split | rows | columns |", "|---|---|---|---|"]
    for name, parts in regions.items():
        for split, r in parts.items():
            lines.append(f"| {name} | {split} | {r['top']} to {r['bottom']} | {r['left']} to {r['right']} |")
    return "\n".join(lines)


def _counts(tiles: dict[str, Any]) -> str:
    count, filled, cells = Counter(), Counter(), Counter()
    for name, entry in tiles.items():
        split, stem = name.split("/")
        key = split, stem.split("_")[0]
        count[key] += 1
        filled[key] += entry["instances"] > 0
        cells[key] += entry["instances"]
    return "\n".join(f"| {s} | {r} | {count[s, r]} | {filled[s, r]} | {cells[s, r]} |" for s, r in count)


def _shares(split: str, tiles: dict[str, Any]) -> str:
    totals = [0] * (len(CLASSES) + 1)
    for name, entry in tiles.items():
        if name.split("/")[0] == split:
            totals = [total + pixels for total, pixels in zip(totals, entry["pixels"], strict=True)]
    void, *classes = totals
    known = max(sum(classes), 1)
    shares = " | ".join(f"{100 * pixels / known:.1f} %" for pixels in classes)
    return f"| {split} | {shares} | {100 * void / max(sum(totals), 1):.1f} % |"
