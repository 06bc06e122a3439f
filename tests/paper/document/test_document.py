"""The document: its order, printed numbers on their side alone, LaTeX that is whole, and a LaTeX that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.audit.beside import tables_beside
from tap.paper.document.contents import ORDER, parts_of, stem_of_label
from tap.paper.document.html import to_html
from tap.paper.document.job import write_document, write_pdf
from tap.paper.document.latex import to_latex
from tap.paper.figures.build import build_figure
from tap.paper.figures.names import FIGURES
from tap.paper.reported import reported_labels
from tap.paper.tables.build import build_table

ROOT = Path(__file__).parents[3]


@pytest.fixture
def made(project):
    """Two tables and a figure of a desk scale, as the workflow writes them."""
    runs = [project.add_cls(method, accuracy, seed) for seed in (0, 1) for method, accuracy in
            (("dense", 0.9), ("tap", 0.8), ("random", 0.7))]  # fmt: skip
    project.evidence(runs)
    project.profile("cls", {"tap": 1.3, "random": 1.4})
    folder = project.root / "results" / "desk"
    for name in ("tab_cls", "tab_keep_rates"):
        build_table(name, "desk", folder / "tables", project.root)
    build_figure("fig_tradeoff", "desk", folder / "figures", project.root)
    return project.root


def test_the_order_is_the_papers_and_holds_every_printed_table():
    assert set(reported_labels()) == {label for label in ORDER if label.startswith("tab:")}
    assert len(set(ORDER)) == len(ORDER)
    assert {stem_of_label(label) for label in ORDER if label.startswith("fig:")} >= set(FIGURES) - {"fig_growth"}


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


def test_the_latex_is_ascii_balanced_and_names_what_is_there(made):
    text = to_latex(parts_of(made / "results" / "desk"), "desk")
    assert text.isascii()
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    for name in ("minipage", "tabular", "adjustbox", "document"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") > 0
    pictures = re.findall(r"\\includegraphics\[.*?\]\{\.\./figures/(.*?)\}", text)
    assert [(made / "results/desk/figures" / name).is_file() for name in pictures] == [True]
    assert text.count("@") == 0
    labels = [label for label in ORDER if label in text]
    assert labels == list(ORDER)


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_pdf_needs_latex_and_says_so(made, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="tap paper page"):
        write_pdf("desk", made)
    write_document("desk", made)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(programs / name) if (programs / name).exists() else None)
    with pytest.raises(UserError, match=r"neither latexmk nor tectonic is installed.*paper\.html"):
        write_pdf("desk", made)
    program(programs, "tectonic", "echo '! Undefined control sequence.'; exit 12")
    with pytest.raises(UserError, match=r"(?s)tectonic ended with 12.*Undefined control sequence"):
        write_pdf("desk", made)
    assert not (made / "results/desk/tables/paper.pdf").exists()
    program(programs, "latexmk", "test -f ../figures/fig_tradeoff.pdf && cat paper.tex > paper.pdf")
    path = write_pdf("desk", made)
    assert path.read_bytes() == (made / "results/desk/tables/paper.tex").read_bytes()


def test_without_any_table_there_is_no_document(tmp_path):
    with pytest.raises(UserError, match="no table and no figure is made yet"):
        write_document("desk", tmp_path)
    assert all(table.printed for table in tables_beside(tmp_path))
