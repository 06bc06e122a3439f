"""Tables are found by their files: what one has to say, and which there are."""

from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.listing import declared, refuse_file
from tap.paper.tables.build import build_table


def test_a_file_that_does_not_say_what_it_needs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tab_x.py").write_text("TABLE = None\n")
    with pytest.raises(UserError, match=r"tab_x.py: must say what it is made from: READS = 'rates' or 'settings'"):
        declared(tmp_path, "tab_", ("rates", "settings"))
    (tmp_path / "tab_x.py").write_text("READS = 'rates'\n")
    assert declared(tmp_path, "tab_", ("rates", "settings")) == {"tab_x": "rates"}


def test_an_unknown_table_names_the_known_ones_the_nearest_first(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"table 'tab_memry': there is none of this name; there are tab_memory, "):
        build_table("tab_memry", "desk", tmp_path)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (
            "paper_tables/tab_cls.pdf",
            r"tab_cls\.pdf: no job makes it; .* paper_tables/tab_cls\.tex \(and .*paper\.pdf",
        ),
        ("paper_tables/fig_insight.svg", r"there are paper_figures/fig_insight\.svg "),
        ("paper_tables/tab_clss.tex", "table 'tab_clss': there is none of this name; there are tab_cls$"),
        ("paper_figures/fig_insigt.svg", "figure 'fig_insigt': there is none of this name; there are fig_insight$"),
    ],
)
def test_a_file_that_no_job_makes_names_those_that_there_are(target: str, says: str) -> None:
    known = ["paper_tables/tab_cls.tex", "paper_tables/tab_cls.record.json", "paper_figures/fig_insight.svg"]
    with pytest.raises(UserError, match=says):
        refuse_file(Path(target), [Path(file) for file in known])
