"""Numbers of a table that other code made, looked for in the one that today's code makes."""

import pytest

from tap.paper.deep.texts import number_differences

CSV = "row,column,value,low,status\ntap,top1,80.5,79.1,measured\ntap,size,2306,,measured\nats,origin,,,measured\n"
MORE = (
    "row,column,value,low,text,status,in_paper\nfloor,top1,20.5,,,measured,no\ntap,top1,80.5,79.1,,measured,yes\n"
    "tap,size,2306,,,stated,yes\n"
)
TEX = "head & 1 \\\\\nTAP & 80.5 & +1.2 \\\\\n"


@pytest.mark.parametrize(
    ("file", "recorded", "recomputed"),
    [("a.csv", CSV, MORE), ("a.tex", TEX, TEX.replace("head & 1", "head & 1 & 3")), ("a.csv", CSV, CSV)],
)
def test_columns_rows_and_words_more_are_no_difference(file, recorded, recomputed):
    assert number_differences(file, recorded, recomputed) == []


def test_what_was_not_measured_is_looked_for_nowhere():
    assert (
        number_differences("a.csv", "row,value,n_seeds\ntap,1.5,2\nsvit,,0\n", "row,value,n_seeds\ntap,1.5,2\n") == []
    )


def test_a_row_that_is_called_more_exactly_now_is_found():
    then, now = "row,column,value\nfloor,miou,20.5\n", "row,column,value\nfloor_constant,miou,20.5\n"
    assert number_differences("a.csv", then, now) == []
    (found,) = number_differences("a.csv", then.replace("20.5", "30.5"), now)
    assert (found.recorded, found.recomputed) == ("30.5", "20.5")


@pytest.mark.parametrize(
    ("file", "recorded", "recomputed", "words"),
    [
        ("a.csv", CSV.replace("80.5", "83.5"), MORE, ("tap top1, value", "83.5", "80.5")),
        ("a.csv", CSV.replace("79.1", "79.9"), MORE, ("tap top1, low", "79.9", "79.1")),
        ("a.csv", CSV + "evit,top1,70.0,69.0,measured\n", MORE, ("evit top1", "70.0 69.0", "no such line")),
        ("a.tex", TEX.replace("80.5", "83.5"), TEX, ("83.5 in rows of tables", "1 times", "0 times")),
    ],
)
def test_a_number_that_is_nowhere_is_named(file, recorded, recomputed, words):
    (found,) = number_differences(file, recorded, recomputed)
    assert (found.field, found.recorded, found.recomputed) == words


def test_a_row_that_is_still_there_is_not_looked_for_in_one_with_a_longer_name():
    now = "row,column,value\ntap,top1,80.5\ntap_f,top1,83.5\n"
    (found,) = number_differences("a.csv", "row,column,value\ntap,top1,83.5\n", now)
    assert (found.recorded, found.recomputed) == ("83.5", "80.5")
