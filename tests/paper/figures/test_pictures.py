"""Figures of single images: what they draw of the file of an image under several methods."""

from __future__ import annotations

import numpy as np
import pytest

from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.figures import fig_pointer_chain, fig_qual
from tap.paper.figures.build import build_figure, render_figure
from tap.paper.figures.style import styled
from tap.plan.shown_runs import PICTURED, pictured_path
from tap.studies.pictured import OfMethod, Pictured, Pointers
from tap.tasks.picture_files import digest_of
from tap.tasks.view import View

PIXELS = np.full((8, 8, 3), 100, np.uint8)
KEPT = np.arange(16).reshape(4, 4) % 2 == 0
CHAIN = Pointers(
    np.array([3, 6, 9]),
    np.array([0.25, 0.5, 0.75]),
    np.where(np.arange(16) == 5, 3, np.where(np.arange(16) == 7, 6, np.where(KEPT.ravel(), 0, 9))),
    np.where(np.arange(16) == 5, 7, np.where(np.arange(16) == 7, 9, np.where(KEPT.ravel(), np.arange(16), 2))),
    np.full(16, 1.5),
)
"""Patch 6 of the first row's end points to 8, that to 10, that to 3, by numbers from 1."""


@pytest.fixture
def looked_at(settings):
    """Segmentation under all methods but one, and classification without predictions."""
    says = View(PIXELS, np.array([[1.0, 1.0, 5.0, 5.0]]), np.array([[1.0, 0.0, 0.0]]), "1 object")
    for task, view, pointers in (("seg", says, CHAIN), ("cls", None, None)):
        methods = tuple(OfMethod(name, f"{task}/{name}/r0.50/main/s0", KEPT, view) for name in PICTURED[1:])
        path = settings / pictured_path("desk", task)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **Pictured(11, PIXELS, (2, 2), view, methods, pointers).arrays())
    return Evidence("desk", settings)


def test_every_panel_is_a_line_with_what_it_shows(looked_at):
    frame = fig_qual.data(looked_at)
    seg = frame[frame["task"] == "seg"]
    assert list(seg["part"]) == ["image", "label", *["kept", "prediction"] * 3]
    assert list(frame[frame["task"] == "cls"]["part"]) == ["image", *["kept"] * 3]
    kept = seg[(seg["series"] == "tap") & (seg["part"] == "kept")].iloc[0]
    assert (kept["kept"], kept["patches"], kept["runs"]) == (8, 16, "seg/tap/r0.50/main/s0")
    bright = kept["picture"][..., 0] > 100
    assert np.array_equal(bright, KEPT.repeat(2, axis=0).repeat(2, axis=1)), "removed patches are darker"


def test_panels_stand_in_the_papers_order_and_what_lacks_is_said(looked_at):
    with styled():
        figure = fig_qual.draw(fig_qual.data(looked_at))
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles == ["Image", "Attention", "Token Cropr", "Random", "TAP-J"]
    lines = np.array(figure.axes).reshape(-1, 5)
    assert [line[0].get_ylabel().splitlines()[0] for line in lines] == ["Classification"] + ["Segmentation"] * 2
    assert all("not measured" in line[1].texts[0].get_text() for line in lines)
    assert [axes.get_xlabel() for axes in lines[2]] == ["1 object", "", *["1 object"] * 3]
    assert len(lines[2, 4].patches) == 1, "a box"


def test_its_csv_names_pictures_by_their_hash_and_its_record_what_it_has_read(looked_at):
    root = looked_at.root
    files = {path.name: path for path in build_figure("fig_qual", "desk", root / "out", root)}
    assert digest_of(PIXELS) in files["fig_qual.csv"].read_text().splitlines()[1]
    assert "11 in classification, 11 in segmentation" in files["fig_qual.caption.md"].read_text()
    assert pictured_path("desk", "seg").as_posix() in (root / "out/fig_qual.record.json").read_text()


@pytest.mark.slow
def test_equal_files_make_equal_figures(looked_at):
    assert render_figure("fig_qual", looked_at) == render_figure("fig_qual", looked_at)


def test_a_chain_has_the_numbers_of_its_pass(looked_at):
    frame = fig_pointer_chain.data(looked_at)
    texts = set(frame["text"].dropna())
    assert {"block 3", "block 6", "block 9", "$i$ (2, 2)\nremoved", "$l$ (1, 3)\nkept", "$l$ (1, 3)"} <= texts
    assert "$\\hat{x}_i = x_l + 0.250\\,\\delta_i$" in texts
    assert set(frame["runs"]) == {"seg/tap/r0.50/main/s0"}
    assert "over image 11 (segmentation)" in fig_pointer_chain.FIGURE.note(looked_at, frame)


def test_without_a_pass_the_chain_is_one_of_symbols(settings):
    evidence = Evidence("desk", settings)
    frame = fig_pointer_chain.data(evidence)
    assert "$\\pi(i)$" in set(frame["text"])
    note = fig_pointer_chain.FIGURE.note(evidence, frame)
    assert "no pass of a trained TAP-J with recovery has been looked at yet" in note
    with styled():
        figure = fig_qual.draw(fig_qual.data(evidence))
    assert "not measured" in figure.axes[0].texts[0].get_text()


def test_a_damaged_file_is_named_with_what_makes_it(looked_at):
    path = looked_at.root / pictured_path("desk", "seg")
    np.savez(path, number=np.array(3))
    with pytest.raises(UserError, match=r"seg\.npz: does not hold an image.*`tap kept seg` makes it"):
        looked_at.pictured("seg")
    path.write_bytes(b"none")
    with pytest.raises(UserError, match=r"seg\.npz: cannot be read.*`tap kept seg` makes it"):
        looked_at.pictured("seg")
