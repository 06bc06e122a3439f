"""A person's own matplotlibrc changes neither figures nor pictures."""

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from tap.drawing import default_style
from tap.paper.figures.style import files_of, styled
from tap.tasks import pictures

OWN = {
    "savefig.transparent": True,
    "savefig.bbox": "tight",
    "figure.autolayout": True,
    "axes.unicode_minus": False,
    "pdf.compression": 0,
    "lines.antialiased": False,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.prop_cycle": mpl.cycler(color="rgb"),
    "savefig.facecolor": "black",
    "savefig.dpi": 30,
    "legend.loc": "lower left",
    "path.simplify": False,
    "text.usetex": True,
}


def draw():
    figure = Figure(figsize=(2, 2))
    axes = figure.subplots()
    axes.plot([0, 1, 2], [-1, 2, 1], label="x")
    axes.set_xlabel("rate")
    axes.legend()
    return figure


def drawn(folder):
    with styled():
        files = files_of(draw())
    with default_style():
        return files | {"picture": pictures.save(draw(), folder / "picture.png").read_bytes()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with mpl.rc_context():
        mpl.rcdefaults()
        return drawn(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("key", OWN)
def test_equal_files(plain, tmp_path, key):
    with mpl.rc_context({key: OWN[key]}):
        assert drawn(tmp_path) == plain
        assert mpl.rcParams[key] == OWN[key]  # theirs again, behind
