"""The document: its order, printed numbers on their side alone, and LaTeX that is whole."""

from __future__ import annotations

import re

import pytest

from tap.errors import UserError
from tap.paper.audit.beside import tables_beside
from tap.paper.document.contents import ORDER, parts_of, stem_of_label
from tap.paper.document.html import to_html
from tap.paper.document.job import write_document
from tap.paper.document.latex import to_latex
from tap.paper.figures.names import FIGURES
from tap.paper.reported import reported_labels


def test_the_order_is_the_papers_and_holds_every_printed_table():
    assert set(reported_labels()) == {label for label in ORDER if label.startswith("tab:")}
    assert len(set(ORDER)) == len(ORDER)
    assert {stem_of_label(label) for label in ORDER if label.startswith("fig:")} >= set(FIGURES) - {"fig_growth"}


@pytest.mark.slow
def test_each_table_stands_beside_the_printed_one_with_a_line_on_both(made):
    parts = parts_of(made / "results" / "desk")
    assert [part.label for part in parts[: len(ORDER)]] == list(ORDER)
    page = to_html(parts, "desk")
    cls = page[page.index('id="tab_cls"') : page.index('id="fig_qual"')]
    here, printed = cls.split("<h3>Printed</h3>")
    assert "80.00" in here
    assert "83.2" in printed
    assert "83.2" not in here
    assert "Signs of the changes beside the printed ones: 2 agrees." in cls
    assert "Nothing of it is known at this scale." in page[page.index('id="tab_seg"') : page.index('id="tab_cls"')]
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
def test_the_latex_is_ascii_balanced_and_names_what_is_there(made):
    text = to_latex(parts_of(made / "results" / "desk"), "desk")
    assert text.isascii()
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    for name in ("minipage", "tabular", "document"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") > 0
    pictures = re.findall(r"\\includegraphics\[.*?\]\{\.\./figures/(.*?)\}", text)
    assert [(made / "results/desk/figures" / name).is_file() for name in pictures] == [True]
    labels = [label for label in ORDER if label in text]
    assert labels == list(ORDER)


def test_without_any_table_there_is_no_document(tmp_path):
    with pytest.raises(UserError, match="no table and no figure is made yet"):
        write_document("desk", tmp_path)
    assert all(table.printed for table in tables_beside(tmp_path))
