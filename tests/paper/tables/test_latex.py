import pytest

from tap.paper.tables import latex


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A_b & c%", r"A\_b \& c\%"),
        ("5$ #1 {x}", r"5\$ \#1 \{x\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("<1>", r"\textless{}1\textgreater{}"),
        ("na\u00efve\u2122", "nave"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    assert latex.escape(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-0.24, "$-$0.2"), (0.25001, "+0.3"), (0.04, "0.0"), (-0.04, "0.0"), (-12.0, "$-$12.0")],
)
def test_signed(value: float, expected: str) -> None:
    assert latex.signed(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(1830.4, "1830"), (99.97, "100"), (99.9, "99.9"), (14.2, "14.2"), (0.314, "0.31")]
)
def test_rate(value: float, expected: str) -> None:
    assert latex.rate(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (290, "290"),
        (2306, "2.3K"),
        (999_960, "1.0M"),
        (1_180_416, "1.2M"),
        (86_567_656, "86.6M"),
        (132e6, "132M"),
    ],
)
def test_count(value: float, expected: str) -> None:
    assert latex.count(value) == expected


def test_a_table_is_balanced_and_has_its_rules() -> None:
    table = latex.Tabular("tab:x", "Cap.", ["a", "b"], [[["1", "2"]], [["3", "4"], ["5", "6"]]], "From here")
    text = table.render()
    assert text.startswith("% From here\n\\begin{table}[tb]")
    assert text.count(r"\midrule") == 2
    assert text.count(r"\\") == 4
    assert text.count("{") == text.count("}")
    assert r"\begin{tabular}{lc}" in text
    assert "tabcolsep" not in text
