from decimal import Decimal
from pathlib import Path

import pytest

from tap.config.methods import METHODS, methods_of
from tap.errors import UserError
from tap.paper.reported import Printed, load_reported, read_reported, reported_labels

MAIN = {"cls": "tab:cls", "seg": "tab:seg", "det": "tab:det"}


@pytest.mark.parametrize(
    ("text", "value", "half_unit"),
    [
        ("47.0", "47.0", "0.05"),
        ("-0.2", "-0.2", "0.05"),
        ("+2.3K", "2300", "50"),
        ("87.5M", "87500000", "50000"),
        ("132M", "132000000", "500000"),
        ("1,179,648", "1179648", "0.5"),
        ("5×10^-4", "0.0005", "0.00005"),  # noqa: RUF001  as the paper prints it
        ("10^-4", "0.0001", "0.00005"),
        ("-11.9%", "-11.9", "0.05"),
    ],
)
def test_printed_numbers_keep_their_precision(text: str, value: str, half_unit: str) -> None:
    cell = Printed.parse(text)
    assert (cell.text, cell.value, cell.half_unit) == (text, Decimal(value), Decimal(half_unit))
    assert cell.low == Decimal(value) - Decimal(half_unit)
    assert cell.high == Decimal(value) + Decimal(half_unit)


@pytest.mark.parametrize("text", ["n/a", "3, 6, 9", "224^2", "d+1", "18, 20, rem.", "100 epochs"])
def test_text_is_no_number(text: str) -> None:
    cell = Printed.parse(text)
    assert cell.text == text
    assert cell.value is None
    with pytest.raises(ValueError, match="no number"):
        _ = cell.low


def test_a_bound_is_not_taken_for_a_value() -> None:
    assert Printed.parse("<+0.1K").bound
    assert load_reported("tab:cls").value("diffrate", "size") is None
    assert load_reported("tab:cls").value("cropr", "size") == 2.6e6


def test_every_table_loads_and_is_found_by_either_name() -> None:
    assert {"tab:seg", "tab:cls", "tab:det", "tab:training-config", "tab:keep-rates"} <= set(reported_labels())
    for label in reported_labels():
        table = load_reported(label)
        assert table.label == label
        assert load_reported(label.replace(":", "_").replace("-", "_")) == table
        assert all(len(row.cells) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize(("task", "label"), MAIN.items())
def test_rows_of_main_tables_are_the_methods_of_the_task(task: str, label: str) -> None:
    keys = [row.key for row in load_reported(label).rows]
    assert set(keys) - {"tap_f"} == set(methods_of(task))
    known = [key for key in METHODS if key in keys]
    assert keys[0] == known[0] == "dense"
    assert keys[-1] == known[-1] == "tap"


@pytest.mark.parametrize("label", MAIN.values())
def test_bold_is_the_best_fully_fine_tuned_result(label: str) -> None:
    table = load_reported(label)
    for column in {column for row in table.rows for column in row.bold}:
        best = max(
            (row for row in table.rows if row.regime == "full"), key=lambda row: table.value(row.key, column) or 0
        )
        assert column in best.bold


def test_unknown_table_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"tab:nope.*tab:cls"):
        load_reported("tab:nope")


GOOD = """
label: tab:x
caption: x
columns: [{key: a, printed: A, unit: ""}]
rows: [{key: r, cells: ["1.0"]}, rule, {key: s, cells: ["2"]}]
"""


def test_rules_separate_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD)
    assert [row.group for row in read_reported(path).rows] == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('cells: ["1.0"]', "cells: [1.0]", "quote the cell 1.0"),
        ('cells: ["1.0"]', "cells: []", "0 cells for 1 columns"),
        ("key: s", "key: r", "twice"),
        ('cells: ["2"]', 'cells: ["2"], colour: red', "unknown entries"),
        ('cells: ["2"]', 'cells: ["2"], regime: half', "regime 'half'"),
        ("caption: x\n", "", "caption"),
        ("columns: [", "columns: [[", "no valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError, match=rf"broken.yaml.*{message}"):
        read_reported(path)
