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


TABLES_OF_THE_PAPER = {  # label: rows, columns of numbers or text beside the row's name
    "tab:seg": (11, 5),
    "tab:cls": (13, 5),
    "tab:det": (8, 7),
    "tab:ablation": (12, 3),
    "tab:stability-memory": (3, 9),
    "tab:notation": (14, 2),
    "tab:budget-tests": (5, 5),
    "tab:parameters": (5, 2),
    "tab:training-config": (13, 3),
    "tab:ownership": (6, 2),
    "tab:baseline-provenance": (7, 2),
    "tab:dense-baseline-provenance": (7, 2),
    "tab:criteria": (11, 2),
    "tab:criterion-summary": (11, 5),
    "tab:paired-recovery": (11, 7),
    "tab:verified-main": (6, 5),
    "tab:keep-rates": (18, 7),
    "tab:absolute-ablation": (12, 3),
    "tab:factorial": (4, 5),
    "tab:matching-ablation": (6, 4),
    "tab:matching-recovery": (6, 6),
    "tab:training-ablation": (5, 6),
    "tab:allocation-controls": (7, 8),
    "tab:register-distributions": (6, 8),
    "tab:latency-breakdown": (8, 6),
    "tab:memory": (3, 5),
    "tab:spatial-statistics": (4, 4),
    "tab:claim-map": (7, 3),
}


def test_all_28_tables_of_the_paper_are_data_of_the_right_shape() -> None:
    assert len(TABLES_OF_THE_PAPER) == 28
    shapes = {label: load_reported(label) for label in reported_labels()}
    assert {label: (len(t.rows), len(t.columns)) for label, t in shapes.items()} == TABLES_OF_THE_PAPER


def test_columns_of_numbers_hold_numbers_of_one_precision() -> None:
    """A cell that lost its places, or a word among numbers, would show here."""
    whole = {"size", "encoder_images_per_second", "full_images_per_second", "cls_ms", "seg_ms", "det_ms"}
    whole |= {f"{task}_share_{block}" for task in ("seg", "det") for block in (3, 6, 9)} | {"count", "count_sd"}
    whole |= {"cls_percent", "seg_percent", "det_percent"}
    for label in set(reported_labels()) - {"tab:budget-tests", "tab:parameters", "tab:training-config"}:
        table = load_reported(label)
        for column in table.columns:
            cells = [table.cell(row.key, column.key) for row in table.rows]
            printed = [cell for cell in cells if cell is not None and cell.text != "n/a"]
            if column.unit.startswith("text"):
                assert all(cell.value is None for cell in printed), (label, column.key)
                continue
            assert all(cell.value is not None for cell in printed), (label, column.key)
            if column.key not in whole:
                assert len({cell.half_unit for cell in printed}) == 1, (label, column.key)


def test_every_table_loads_and_is_found_by_either_name() -> None:
    for label in reported_labels():
        table = load_reported(label)
        assert table.label == label
        assert load_reported(label.replace(":", "_").replace("-", "_")) == table
        assert all(len(row.cells) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize(("task", "label"), MAIN.items())
def test_rows_of_main_tables_are_the_methods_of_the_task(task: str, label: str) -> None:
    keys = [row.key for row in load_reported(label).rows]
    assert set(keys) == set(methods_of(task))
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
        ('cells: ["2"]', 'cells: ["2"], colour: red', "rows.1.colour"),
        ('cells: ["2"]', 'cells: ["2"], regime: half', "rows.1.regime: Input should be 'dense'"),
        ("caption: x\n", "", "caption"),
        ("columns: [", "columns: [[", "no valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError, match=rf"broken.yaml.*{message}"):
        read_reported(path)
