import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.tasks.draws import Draws
from tap.tasks.fashion_scenes.compose import BACKGROUND, SIDE, Recipe, compose, outline

RNG = np.random.default_rng(0)
POOL = np.zeros((12, 28, 28), dtype=np.uint8)
for number, garment in enumerate(POOL):  # blocks of cloth of several sizes, black around them
    garment[2 + number % 5 : 26, 4 + number % 7 : 24] = RNG.integers(40, 256)
KINDS = [number % 10 for number in range(len(POOL))]


def scene_of(seed, count=5, **changes):
    return compose(POOL[:count], KINDS[:count], POOL, Draws("a test", seed), Recipe(**changes))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(0, 60))
def test_what_is_seen_is_labelled(seed, count, hidden):
    scene = scene_of(seed, count, hidden=hidden)
    numbers = np.unique(scene.instances)
    assert numbers.tolist() == list(range(len(numbers)))  # garments without a place leave no gap
    assert ((scene.labels == BACKGROUND) == (scene.instances == 0)).all()
    kinds = [np.unique(scene.labels[scene.instances == number]) for number in numbers[1:]]
    assert all(len(kind) == 1 for kind in kinds)
    rest = iter(KINDS[:count])
    assert all(int(kind[0]) - 2 in rest for kind in kinds)  # in the order in which they were laid down


@pytest.mark.parametrize("seed", range(5))
def test_no_garment_is_hidden_by_more_than_the_recipe_says(seed):
    """A scene of the first k garments is that of all before the next one comes, so its numbers are what was seen."""
    first = scene_of(seed, 1, hidden=20)
    whole = (first.instances == 1).sum()
    assert whole >= Recipe().least
    assert (scene_of(seed, 12, hidden=20).instances == 1).sum() >= 0.8 * whole


def test_nothing_is_hidden_where_nothing_may_be():
    alone = scene_of(3, 1, hidden=0)
    assert (scene_of(3, 12, hidden=0).instances == 1).sum() == (alone.instances == 1).sum()


def test_a_garment_shows_its_own_pixels():
    scene = scene_of(1, 1, pieces=0, noise=0, brightness=(100, 100))
    cloth = POOL[0].max()
    inside = scene.image[scene.instances == 1]
    assert inside.max() <= cloth
    assert np.median(inside) == cloth
    assert not scene.image[scene.instances == 0].any()


def test_a_piece_is_no_object():
    scene = scene_of(1, 0, noise=0)
    assert scene.image.any()
    assert not scene.instances.any()
    assert (scene.labels == BACKGROUND).all()


def test_a_scene_is_a_function_of_its_draws():
    one, again, other = scene_of(1), scene_of(1), scene_of(2)
    assert (one.image == again.image).all()
    assert (one.image != other.image).any()
    assert one.image.shape == (SIDE, SIDE)


def test_dark_cloth_belongs_to_a_garment():
    garment = np.zeros((28, 28), dtype=np.uint8)
    garment[5:20, 5:20] = 90
    garment[10:14, 10:14] = 0
    assert outline(garment).sum() == 15 * 15
