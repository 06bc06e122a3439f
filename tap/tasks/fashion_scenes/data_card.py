"""The data card of the scenes, written from the manifest."""

from __future__ import annotations

from typing import Any

from tap.tasks.fashion_scenes.compose import Recipe

_TEXT = """\
# Scenes of garments

{count} grey 8-bit pictures of {side} x {side} pixels with the boxes, masks and kinds of the garments in them, in
COCO's format. Made by `tap data prepare det`; do not edit.

## Origin
The garments are the photographs of Fashion-MNIST (Zalando Research, MIT licence; Xiao, Rasul and Vollgraf 2017), kept
with their hashes in `garments/`. **The scenes are composed of them**, they were not photographed: positions, sizes and
what hides what are drawn.

- A scene has {garments[0]} to {garments[1]} garments. Each is enlarged from 28 to {sides[0]} to {sides[1]} pixels,
  mirrored by chance, darkened to {brightness[0]} to {brightness[1]} % and laid down in turn, by up to {beyond} % of its
  side over the border; at most {hidden} % of a garment is hidden by others.
- Under them lie {pieces} squares of {piece_sides[0]} to {piece_sides[1]} pixels cut out of other garments, which are no
  objects. Every pixel is off by up to {noise} of 255.
- The mask of a garment is what is seen of the pixels above black, holes filled; its box is that of the mask.
- **No garment is in two scenes** (pieces excepted), so the scenes of a split are independent.

## Layout
| folder | content |
|---|---|
| `images/<split>/*.png` | the pictures |
| `coco/instances_<split>.json` | boxes, run-length masks, areas, kinds |
| `garments/` | the verified files of Fashion-MNIST |
| `manifest.json` | settings, and the hash of each picture's pixels |

## Splits
Training and calibration scenes are made of the training images (the last {held_out} of them are calibration's),
validation scenes of the test images.

| split | scenes | garments | {classes} |
|---|---|---|{rule}
{rows}
"""


def render(manifest: dict[str, Any], recipe: Recipe) -> str:
    """The card as Markdown; the same text for the same manifest."""
    settings, classes = manifest["settings"], manifest["classes"]
    rows = [
        f"| {split} | {settings['scenes'][split]} | {sum(counts)} | {' | '.join(map(str, counts))} |"
        for split, counts in manifest["garments"].items()
    ]
    return _TEXT.format(
        **vars(recipe),
        count=len(manifest["pictures"]),
        side=settings["side"],
        held_out=settings["held_out"],
        classes=" | ".join(classes),
        rule="---|" * len(classes),
        rows="\n".join(rows),
    )
