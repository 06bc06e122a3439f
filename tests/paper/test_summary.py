import io
from pathlib import Path

import pytest
from rich.console import Console

from tap.errors import UserError
from tap.paper.summary import print_summary
from tap.paper.tables.main_table import MAIN_TABLES
from tap.paper.tables.build import build_main_table
from tap.paper.tidy import gather


def write(project, runs, folder: Path, scale: str = "desk") -> None:
    folder.mkdir()
    contents = build_main_table(MAIN_TABLES["tab_cls"], gather(runs, project.root), 0.5, scale, project.root)
    for suffix, text in contents.items():
        (folder / f"tab_cls{suffix}").write_text(text)


def printed(folder: Path) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=200)
    count = print_summary(folder, console)
    return count, console.file.getvalue()  # type: ignore[attr-defined]


def test_summary_shows_tables_and_contradictions(project, cls_runs, tmp_path: Path) -> None:
    write(project, cls_runs, tmp_path / "tables")
    count, text = printed(tmp_path / "tables")
    assert count == 1
    assert "tab_cls top1" in text
    assert "4 of 13" in text
    assert "-1.00" in text
    assert "tab_cls: top1: the paper puts TAP-J (ours) above Random (by 1.2)" in text
    assert "mean nothing" not in text


def test_summary_of_smoke_says_that_it_means_nothing(project, cls_runs, tmp_path: Path) -> None:
    write(project, cls_runs, tmp_path / "tables", "smoke")
    count, text = printed(tmp_path / "tables")
    assert count == 1
    assert "these numbers mean nothing" in text
    assert "contradicts the paper" not in text


def test_no_table_yet(tmp_path: Path) -> None:
    assert printed(tmp_path)[0] == 0
    assert "No table" in printed(tmp_path)[1]


def test_a_broken_comparison_is_refused_by_name(project, tmp_path: Path) -> None:
    write(project, [], tmp_path / "tables")
    (tmp_path / "tables" / "tab_cls.compare.csv").write_text("")
    with pytest.raises(UserError, match=r"tab_cls.compare.csv"):
        printed(tmp_path / "tables")
