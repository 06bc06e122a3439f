import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tap.cli import app
from tap.errors import UserError
from tap.paper.summary import print_summary
from tap.paper.tables.build import build_table
from tap.paper.tables.names import names


@pytest.fixture
def cls_runs(project) -> list:
    """Three seeds of four methods; the order contradicts the paper in one place: Random above TAP-J."""
    accuracies = {"dense": 0.9, "random": 0.88, "attn_topk": 0.84, "tap": 0.80}
    return [project.add_cls(method, value, seed) for method, value in accuracies.items() for seed in (0, 1, 2)]


def write(project, runs, folder: Path, scale: str = "desk") -> None:
    folder.mkdir()
    for suffix, text in project.table("tab_cls", runs, scale).items():
        (folder / f"tab_cls{suffix}").write_text(text)


def printed(folder: Path, width: int = 200) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=width)
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
    (line,) = [line for line in text.splitlines() if "tab_cls top1" in line]
    assert "4 of 13" in line
    assert line.count("--") == 4  # no rank correlation and no verdicts


@pytest.mark.slow
def test_every_table_has_its_line_also_those_without_a_row_to_compare(results) -> None:
    results.gather(*(results.run("dense", task=task) for task in ("cls", "seg", "det")))
    folder = results.root / "tables"
    folder.mkdir()
    for name in names():
        build_table(name, "desk", folder, results.root)
    count, text = printed(folder, width=80)
    assert count == len(names())
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith("│ tab_")}
    assert lines.keys() == set(names())
    assert "0 of" in lines["tab_training_config"]


def test_no_table_yet(tmp_path: Path) -> None:
    assert printed(tmp_path)[0] == 0
    assert "No table" in printed(tmp_path)[1]


@pytest.mark.parametrize(("scale", "command"), [("desk", "make reproduce"), ("paper", "make reproduce SCALE=paper")])
def test_the_command_that_makes_a_scale_s_tables(settings, monkeypatch, scale: str, command: str) -> None:
    monkeypatch.chdir(settings)
    told = CliRunner().invoke(app, ["summary", "--scale", scale])
    assert told.exit_code == 0
    assert told.stdout.endswith(f" yet; `{command}` makes them.\n")


def test_a_broken_comparison_is_refused_by_name(project, tmp_path: Path) -> None:
    write(project, [], tmp_path / "tables")
    (tmp_path / "tables" / "tab_cls.compare.csv").write_text("")
    with pytest.raises(UserError, match=r"tab_cls.compare.csv"):
        printed(tmp_path / "tables")
