"""One scene: garments of Fashion-MNIST that hide parts of each other, among pieces of other garments.

A piece is not an object, so that an edge or a texture alone says nothing: what is to be found is a whole garment, and
which of ten kinds it is. Everything is in whole numbers, and a scene is a function of its garments and its draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image
from scipy.ndimage import binary_fill_holes

from tap.tasks.draws import Draws

SIDE = 128
BACKGROUND = 1
"""Stored label, as the microscopy tiles number them: classes of garments follow from 2."""

_PLACES_TRIED = 30


@dataclass(frozen=True)
class Recipe:
    """How scenes are made; lengths in pixels.

    Attributes:
        garments: least and most of them.
        sides: least and most side of the square that a garment of 28 x 28 is enlarged to.
        beyond: share of that side, in percent, by which it may reach over the border.
        hidden: most of a garment, in percent, that others may hide.
        least: pixels of a garment that must be in the scene when it is laid down.
        brightness: least and most of it, in percent of the image's own.
        pieces: squares cut out of other garments.
        piece_sides: least and most side of them.
        noise: of each pixel, at most up or down, in steps of 255.
    """

    garments: tuple[int, int] = (3, 7)
    sides: tuple[int, int] = (28, 56)
    beyond: int = 16
    hidden: int = 35
    least: int = 100
    brightness: tuple[int, int] = (50, 100)
    pieces: int = 24
    piece_sides: tuple[int, int] = (8, 16)
    noise: int = 10


@dataclass(frozen=True)
class Scene:
    """A picture and what is in it.

    Attributes:
        image: (H, W) uint8.
        labels: (H, W) uint8; 1 background, c + 2 where a garment of class c is seen.
        instances: (H, W) uint16 number of the garment, 0 where there is none.
    """

    image: np.ndarray
    labels: np.ndarray
    instances: np.ndarray


def compose(
    garments: Sequence[np.ndarray], classes: Sequence[int], others: np.ndarray, draws: Draws, recipe: Recipe
) -> Scene:
    """Lays garments down, one after the other, on pieces of others; one that finds no place is left out.

    Args:
        garments: (28, 28) uint8 each, black around the garment.
        classes: class of each.
        others: (N, 28, 28) uint8, what the pieces are cut from.
        draws: every choice.
        recipe: sizes.
    """
    picture = np.zeros((SIDE, SIDE), dtype=np.int64)
    instances = np.zeros((SIDE, SIDE), dtype=np.uint16)
    labels = np.full((SIDE, SIDE), BACKGROUND, dtype=np.uint8)
    for _ in range(recipe.pieces):
        _lay_piece(picture, others[draws.below(len(others))], draws, recipe)
    seen: list[int] = []  # pixels of each garment when nothing hid it yet
    for garment, kind in zip(garments, classes, strict=True):
        pixels, shape = _enlarged(garment, draws, recipe)
        place = _place(shape, instances, seen, draws, recipe)
        if place is None:
            continue
        inside, cut = place
        visible = shape[cut]
        bright = pixels[cut] * draws.between(*recipe.brightness) // 100
        picture[inside][visible] = bright[visible]
        seen.append(int(visible.sum()))
        instances[inside][visible] = len(seen)
        labels[inside][visible] = kind + 2
    picture += draws.many_below(2 * recipe.noise + 1, picture.shape) - recipe.noise
    return Scene(np.clip(picture, 0, 255).astype(np.uint8), labels, instances)


def outline(garment: np.ndarray) -> np.ndarray:
    """Where a garment is: its pixels above black, holes filled (dark cloth is black as well); a boolean map."""
    return np.asarray(binary_fill_holes(garment > 0))


def _lay_piece(picture: np.ndarray, garment: np.ndarray, draws: Draws, recipe: Recipe) -> None:
    side, enlarged = draws.between(*recipe.piece_sides), draws.between(*recipe.sides)
    pixels = _resized(garment, enlarged)
    top, left = draws.below(enlarged - side + 1), draws.below(enlarged - side + 1)
    piece = pixels[top : top + side, left : left + side] * draws.between(*recipe.brightness) // 100
    top, left = draws.below(SIDE - side + 1), draws.below(SIDE - side + 1)
    picture[top : top + side, left : left + side] = piece


def _enlarged(garment: np.ndarray, draws: Draws, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and outline of a garment at a size, mirrored by chance."""
    side = draws.between(*recipe.sides)
    if draws.below(2):
        garment = garment[:, ::-1]
    return _resized(garment, side), _resized(outline(garment).astype(np.uint8) * 255, side) >= 128


def _resized(image: np.ndarray, side: int) -> np.ndarray:
    resized = Image.fromarray(np.ascontiguousarray(image)).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(resized).astype(np.int64)


def _place(
    shape: np.ndarray, instances: np.ndarray, seen: Sequence[int], draws: Draws, recipe: Recipe
) -> tuple[tuple[slice, slice], tuple[slice, slice]] | None:
    """Where a garment goes: the part of the scene that it covers, and the part of its own map that is inside.

    None after too many tries, each of which left too little of it inside, or hid too much of another.
    """
    side = len(shape)
    over = side * recipe.beyond // 100
    for _ in range(_PLACES_TRIED):
        corner = [draws.between(-over, SIDE - side + over) for _ in range(2)]
        inside, cut = zip(*(_overlap(start, side) for start in corner), strict=True)
        visible = shape[cut]
        if visible.sum() < recipe.least:
            continue
        left = np.bincount(instances.ravel(), minlength=len(seen) + 1)
        left -= np.bincount(instances[inside][visible], minlength=len(seen) + 1)
        if (100 * left[1:] >= (100 - recipe.hidden) * np.array(seen, dtype=np.int64)).all():
            return inside, cut
    return None


def _overlap(start: int, side: int) -> tuple[slice, slice]:
    """What lies inside of the scene of a stretch that begins at `start`: in the scene, and in the stretch."""
    first, last = max(start, 0), min(start + side, SIDE)
    return slice(first, last), slice(first - start, last - start)
