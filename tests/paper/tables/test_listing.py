"""Tables are found by their files: what one has to say, and which there are."""

from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.listing import declared
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
