"""The figures of the probes: what they show, that equal data give equal files, and that the paper can take them."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.figures import insight, names, probe_data
from tap.paper.figures.registry import FIGURES, build_figure
from tap.paper.figures.style import COLUMN_WIDTH, CRITERIA, TEXT_WIDTH, styled

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


def test_names_are_those_of_the_workflow() -> None:
    assert tuple(FIGURES) == names.FIGURES


def test_the_four_panels_hold_drops_gaps_means_and_endpoints(probed: Evidence) -> None:
    frame = probe_data.insight(probed)
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
    frame = probe_data.all_probes(probed)
    assert len(frame) == 4 * (3 + 3 + 2)
    assert not frame.duplicated(["task", "series", "layer"]).any()


@pytest.mark.parametrize("name", FIGURES)
def test_equal_data_give_equal_files(name: str, probed: Evidence) -> None:
    folders = [probed.root / folder for folder in ("first", "second")]
    made = [build_figure(name, "desk", folder, probed.root) for folder in folders]
    for first, second in zip(*made, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.suffix
    pdf, png, table = made[0]
    assert b"CreationDate" not in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes(), "publishers refuse such fonts"
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert set(pd.read_csv(table)["runs"].str.split().str[0].str.split("/").str[0]) == {"probes"}
    assert "results/desk/tidy_probes_seg.csv" in (folders[0] / f"{name}.record.json").read_text()


@pytest.mark.slow
def test_another_process_draws_the_same_file(probed: Evidence) -> None:
    build_figure("fig_insight", "desk", probed.root / "first", probed.root)
    code = (
        "import sys; from tap.paper.figures.registry import build_figure; "
        "build_figure('fig_insight', 'desk', sys.argv[1] + '/second', sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(probed.root)], check=True)
    first, second = (probed.root / folder / "fig_insight.pdf" for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_changed_data_change_the_picture(probed: Evidence) -> None:
    frame = probe_data.insight(probed)
    with styled():
        pictures = [insight.draw(data) for data in (frame, frame.assign(value=frame["value"] + 1))]
        heights = [picture.axes[3].patches[0].get_height() for picture in pictures]
    assert heights[1] == heights[0] + 1


def test_sizes_and_fonts_are_the_papers(probed: Evidence) -> None:
    with styled():
        figure = insight.draw(probe_data.insight(probed))
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
        figure = insight.draw(probe_data.insight(Evidence("desk", results.root)))
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


def test_highlighted_series_differ_without_colour() -> None:
    assert len({look.marker for look in CRITERIA.values()}) == len(CRITERIA)
    assert len({look.dashes for look in CRITERIA.values()}) == len(CRITERIA)


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_not_measured_is_said_in_its_panel(name: str, results) -> None:
    results.probe("cls", "layers", layers((1, 2), None))
    assert build_figure(name, "desk", results.root / "out", results.root)
    frame = FIGURES[name].data(Evidence("desk", results.root))
    with styled():
        figure = FIGURES[name].draw(frame)
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum("not measured" in text for text in said) == {"fig_insight": 3, "fig_all_probes": 2}[name]


def test_what_cannot_be_drawn_is_refused(settings: Path) -> None:
    with pytest.raises(UserError, match="figure 'fig_best': cannot be drawn; choose one of fig_insight"):
        build_figure("fig_best", "desk", settings / "out", settings)
    with pytest.raises(UserError, match="fig_insight': nothing of it is measured at scale 'desk'"):
        build_figure("fig:insight", "desk", settings / "out", settings)
