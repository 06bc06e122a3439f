"""Drawings of boxes and arrows: their tables, what the method's drawing takes from the settings, and equal files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tap.paper.evidence import Evidence
from tap.paper.figures.build import load_figure, render_figure
from tap.paper.figures.diagram import Arrow, Box, elements
from tap.paper.figures.names import figures_of

ROOT = Path(__file__).resolve().parents[3]
BOXES = (Box("a", "A", 0.0, 0.0), Box("b", "B", 3.0, 0.0))


def test_arrows_know_no_box_that_is_not_there():
    assert list(elements(BOXES, [Arrow("a", "b")])["name"].fillna("arrow")) == ["a", "b", "arrow"]
    with pytest.raises(ValueError, match=r"unknown: \{.c.\}"):
        elements(BOXES, [Arrow("a", "c")])
    with pytest.raises(ValueError, match="each needs a name of its own"):
        elements((*BOXES, BOXES[0]), [])


@pytest.mark.parametrize("name", [*figures_of("settings"), "fig_pointer_chain"])
def test_no_box_of_a_drawing_lies_on_another(name):
    frame = load_figure(name).data(Evidence("desk", ROOT))
    boxes = list(frame[frame["name"].notna()].itertuples())
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            apart_x = abs(one.x - other.x) >= (one.width + other.width) / 2
            assert apart_x or abs(one.y - other.y) >= (one.height + other.height) / 2, (one.name, other.name)


def test_the_method_prunes_where_the_settings_say():
    evidence = Evidence("desk", ROOT)
    texts = " ".join(load_figure("fig_method").data(evidence)["text"].dropna())
    for layer in evidence.settings.controller.layers:
        assert f"after\nblock {layer}" in texts


def test_equal_drawings_are_equal_files():
    first, second = (render_figure("fig_pointer_chain", Evidence("desk", ROOT)) for _ in range(2))
    assert first == second


def test_a_drawing_is_the_same_at_every_scale_since_nothing_in_it_is_measured():
    desk, smoke = (render_figure("fig_training_graph", Evidence(scale, ROOT)) for scale in ("desk", "smoke"))
    assert desk[".png"] == smoke[".png"]
