"""The figures of the probes: what they show, that equal data give equal files, and that the paper can take them."""

import io
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.figures import build, fig_all_probes, fig_insight, probe_data
from tap.paper.figures.build import build_figure, load_figure, render_figure
from tap.paper.figures.names import figures_of
from tap.paper.figures.style import COLUMN_WIDTH, CRITERIA, OTHERS, TASKS, TEXT_WIDTH, styled

FIGURES = figures_of("probes")
NAMES = ("random", "attention_mean", "coverage", "token_l1")


def layers(blocks, endpoint, sign=1.0):
    return {
        (name, block, endpoint): 3.0 + sign * 2.0 * number + 0.25 * block
        for number, name in enumerate(NAMES)
        for block in blocks
    }


@pytest.fixture
def probed(results) -> Evidence:
    results.probe("cls", "layers", layers((1, 2, 3), None))
    results.probe("seg", "layers", layers((1, 2, 3), 1.0))
    results.probe("det", "layers", layers((3, 6), 0.0, -1.0))
    for task in ("seg", "det"):
        drops = {("coverage", block, alpha): 4.0 + alpha for block in (3, 6) for alpha in (0.0, 1.0)}
        results.probe(task, "recovery", drops, seeds=(0, 1))
    return Evidence("desk", results.root)


def test_the_four_panels_hold_drops_gaps_means_and_endpoints(probed: Evidence) -> None:
    frame = fig_insight.data(probed)
    assert list(frame.columns) == list(probe_data.COLUMNS)
    sizes = frame.groupby("panel").size().to_dict()
    assert sizes == {"a": 4 * 3, "b": 3 + 2, "c": 4 + 4 + 1, "d": 2 + 4}
    gaps = frame[(frame["panel"] == "b") & (frame["task"] == "seg")]
    probe = probed.probe("seg", "layers").frame.set_index(["criterion", "layer"])["value"]
    for row in gaps.itertuples():
        assert row.value == pytest.approx(probe["coverage", row.layer] - probe["attention_mean", row.layer])
        assert row.low <= row.value <= row.high
    correlation = frame[frame["series"] == "rank correlation"].iloc[0]
    assert correlation["value"] == -1
    assert correlation["runs"].split()[0] == "probes/seg/layers"
    endpoints = frame[(frame["panel"] == "d") & (frame["metric"] == "mask_ap")].set_index("series")["value"]
    assert endpoints["full offset"] - endpoints["stand-in"] == pytest.approx(1.0, abs=0.35)
    assert (frame["panel"] == "d").sum() == frame["sd"].notna().sum()


def test_all_probes_holds_every_drop(probed: Evidence) -> None:
    frame = fig_all_probes.data(probed)
    assert len(frame) == 4 * (3 + 3 + 2)
    assert not frame.duplicated(["task", "series", "layer"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_equal_data_give_equal_files_that_publishers_take(name: str, probed: Evidence) -> None:
    """In another process, too."""
    files = build_figure(name, "desk", probed.root / "first", probed.root)
    code = (
        "import sys; from tap.paper.figures.build import build_figure; "
        "build_figure(sys.argv[2], 'desk', sys.argv[1] + '/second', sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(probed.root), name], check=True)
    for file in files:
        assert file.read_bytes() == (probed.root / "second" / file.name).read_bytes(), file.name
    pdf, png, svg, table, _ = files
    assert b"CreationDate" not in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes(), "publishers refuse such fonts"
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert b"<dc:date>" not in svg.read_bytes()
    assert set(pd.read_csv(table)["runs"].str.split().str[0].str.split("/").str[0]) == {"probes"}
    inputs = json.loads((probed.root / f"first/{name}.record.json").read_text())["inputs"]
    assert {"results/desk/tidy_probes_seg.csv", "results/desk/probes/seg/layers/per_sample.npz"} < inputs.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_tells_bands_and_protocol(name: str, probed: Evidence, results, monkeypatch) -> None:
    monkeypatch.setattr(build, "files_of", lambda figure: {})  # the picture itself takes a second

    def told() -> str:
        return render_figure(name, Evidence("desk", probed.root))[".caption.md"].decode()

    text = told()
    assert "95 % percentile intervals of a paired bootstrap over the validation images (2,000 resamples)" in text
    assert "- det: blocks 3, 6, local keep rate 0.5, endpoint 0, 300 images, seed 0." in text
    assert "No-pruning checkpoints: seg/dense/r1.00/main/s0." in text
    assert ("seeds 0, 1" in text) == (name == "fig_insight")
    assert "floor" not in text
    runs = [results.run("dense", 0.8, task="seg"), results.run("dense", 0.9, task="seg", variant="random-encoder")]
    results.gather(*runs)
    assert told().count("On seg no pruning is not above every floor") == 1


def test_a_criterion_that_the_paper_does_not_have_is_drawn_and_said(results) -> None:
    drops = {(name, block, None): 3.0 + block for name in ("coverage", "token_mass") for block in (1, 2)}
    results.probe("cls", "layers", drops)
    contents = render_figure("fig_all_probes", Evidence("desk", results.root))
    frame = pd.read_csv(io.BytesIO(contents[".csv"])).set_index("series")["in_paper"]
    assert frame["coverage"].all()
    assert not frame["token_mass"].any()
    assert "Not in the paper: token_mass." in contents[".caption.md"].decode()


def test_values_of_single_images_that_are_gone_stop_a_figure(probed: Evidence) -> None:
    (probed.root / "results/desk/probes/seg/layers/per_sample.npz").unlink()
    with pytest.raises(UserError, match=r"seg/layers/per_sample.npz: is not there"):
        build_figure("fig_insight", "desk", probed.root / "out", probed.root)
    assert not (probed.root / "out").exists()


def test_tasks_without_a_common_criterion_have_no_points(results) -> None:
    for task, name in (("seg", "random"), ("det", "coverage")):
        results.probe(task, "layers", {(name, 3, 1.0): 4.0})
    frame = fig_insight.data(Evidence("desk", results.root))
    assert frame.loc[frame["series"] == "rank correlation", "value"].isna().all()
    with styled():
        fig_insight.draw(frame).draw_without_rendering()


@pytest.mark.slow
def test_changed_data_change_the_picture(probed: Evidence) -> None:
    frame = fig_insight.data(probed)
    with styled():
        pictures = [fig_insight.draw(data) for data in (frame, frame.assign(value=frame["value"] + 1))]
        heights = [picture.axes[3].patches[0].get_height() for picture in pictures]
    assert heights[1] == heights[0] + 1


def test_sizes_and_fonts_are_the_papers(probed: Evidence) -> None:
    with styled():
        figure = fig_insight.draw(fig_insight.data(probed))
        figure.draw_without_rendering()
    assert figure.get_size_inches()[0] == TEXT_WIDTH > COLUMN_WIDTH
    texts = [text for text in figure.findobj(lambda item: hasattr(item, "get_fontsize")) if text.get_text()]
    assert {text.get_fontfamily()[0] for text in texts} == {"STIXGeneral"}
    assert min(text.get_fontsize() for text in texts) >= 7


def test_the_correlation_covers_no_point(results) -> None:
    """Also where both tasks rank alike, and the points go up to the corner that holds the text."""
    for task in ("seg", "det"):
        results.probe(task, "layers", layers((3, 6), 1.0))
    with styled():
        figure = fig_insight.draw(fig_insight.data(Evidence("desk", results.root)))
        figure.draw_without_rendering()
        axes = figure.axes[2]
        (text,) = axes.texts
        box = text.get_window_extent()
        points = [
            axes.transData.transform(point) for part in axes.collections for point in part.get_offsets() if len(point)
        ]
    assert "= 1.00" in text.get_text()
    assert len(points) == len(NAMES)
    assert not any(box.padded(3).contains(*point) for point in points)


def test_series_of_a_legend_differ_without_colour() -> None:
    """Lines of the other criteria have no markers and are thinner."""
    looks = [*CRITERIA.values(), *TASKS.values()]
    assert len({look.dashes for look in looks}) == len(looks)
    assert len({look.marker for look in (*looks, OTHERS)}) == len(looks) + 1


@pytest.mark.parametrize("sight", ["normal", "protan", "deutan"])
def test_series_of_a_legend_differ_for_every_reader(sight: str) -> None:
    looks = (*CRITERIA.values(), *TASKS.values(), OTHERS)
    seen = {look.name: cielab(SIGHT[sight] @ linear(to_rgb(look.colour))) for look in looks}
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(rgb: tuple[float, float, float]) -> np.ndarray:
    part = np.array(rgb)
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def cielab(rgb: np.ndarray) -> np.ndarray:
    part = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(part > 216 / 24389, np.cbrt(part), (24389 / 27 * part + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_what_is_not_measured_is_said_in_its_panel(name: str, results) -> None:
    results.probe("cls", "layers", layers((1, 2), None))
    assert build_figure(name, "desk", results.root / "out", results.root)
    frame = load_figure(name).data(Evidence("desk", results.root))
    with styled():
        figure = load_figure(name).draw(frame)
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum("not measured" in text for text in said) == {"fig_insight": 3, "fig_all_probes": 2}[name]


def test_what_cannot_be_drawn_is_refused(settings: Path) -> None:
    with pytest.raises(UserError, match="figure 'fig_best': there is none of this name; there are fig_"):
        build_figure("fig_best", "desk", settings / "out", settings)
    with pytest.raises(UserError, match="fig_insight': nothing of it is measured at scale 'desk'"):
        build_figure("fig:insight", "desk", settings / "out", settings)
