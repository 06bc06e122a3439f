"""The document as a PDF: by real LaTeX where it is installed, and one sentence where it is missing or fails."""

from __future__ import annotations

import shutil

import pytest

from tap.errors import UserError
from tap.paper.audit.beside import TableBeside
from tap.paper.document.contents import TablePart
from tap.paper.document.job import COMPILERS, SOURCE, write_document, write_pdf
from tap.paper.document.latex import to_latex

needs_latex = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason=f"neither {' nor '.join(COMPILERS)} is installed"
)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder with the only LaTeX that is found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(folder / name) if (folder / name).exists() else None)
    return folder


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def source(tmp_path):
    """A document without parts."""
    path = tmp_path / "results/desk/tables" / SOURCE
    path.parent.mkdir(parents=True)
    path.write_text(to_latex([], "desk"))
    return path


def test_a_pdf_needs_its_source_and_a_latex(tmp_path, source, programs):
    with pytest.raises(UserError, match="tap paper page"):
        write_pdf("smoke", tmp_path)
    with pytest.raises(UserError, match=r"neither latexmk nor tectonic is installed.*apt-get install.*paper\.html"):
        write_pdf("desk", tmp_path)
    picture = tmp_path / "results/desk/figures/fig_tradeoff.pdf"
    picture.parent.mkdir()
    picture.touch()
    program(programs, "tectonic", "exit 1")
    program(programs, "latexmk", "test -f ../figures/fig_tradeoff.pdf && cat paper.tex > paper.pdf")
    assert write_pdf("desk", tmp_path).read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("name", "says", "reason"),
    [
        ("tectonic", "error: paper.tex:12: Undefined control sequence", "12: Undefined control sequence; all that"),
        (
            "latexmk",
            "(./paper.aux)\n./paper.tex:5: Undefined control sequence.\nl.5",
            "5: Undefined control sequence.; all",
        ),
        ("latexmk", "./paper.tex:5: LaTeX Error: File `booktabs.sty' not found.", "texlive-latex-recommended lmodern"),
        ("latexmk", "", "it said nothing"),
    ],
)
def test_a_latex_that_fails_gives_one_sentence_and_keeps_what_it_said(tmp_path, source, programs, name, says, reason):
    (programs / "words").write_text(says + "\n")
    program(programs, name, f"cat {programs / 'words'}; exit 12")
    with pytest.raises(UserError) as failure:
        write_pdf("desk", tmp_path)
    message = str(failure.value)
    assert message.startswith(f"paper.pdf: {name} failed on ")
    assert reason in message
    assert "\n" not in message
    assert (tmp_path / ".tap/logs/desk/latex.log").read_text() == says + "\n"
    assert not source.with_suffix(".pdf").exists()


@pytest.mark.slow
@needs_latex
def test_latex_sets_the_whole_document(made):
    write_document("desk", made)
    pdf = write_pdf("desk", made).read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert (made / "results/desk/tables/paper_pdf.record.json").is_file()


@pytest.mark.slow
@needs_latex
def test_equal_sources_are_equal_files_and_real_errors_are_named(tmp_path, source):
    first = write_pdf("desk", tmp_path).read_bytes()
    assert write_pdf("desk", tmp_path).read_bytes() == first
    source.write_text(source.read_text().replace(r"\par", r"\parr", 1))
    with pytest.raises(UserError, match="Undefined control sequence"):
        write_pdf("desk", tmp_path)


@pytest.mark.slow
@needs_latex
def test_a_table_that_is_longer_and_wider_than_a_page_shrinks_to_it(tmp_path, source):
    row = " & ".join(["a cell of a wide table"] * 30) + r" \\"
    tabular = "\n".join([rf"\begin{{tabular}}{{{'l' * 30}}}", *[row] * 300, r"\end{tabular}"])
    part = TablePart("tab:long", TableBeside("tab:long", "", (), ()), tabular, "Long and wide.")
    source.write_text(to_latex([part], "desk"))
    assert write_pdf("desk", tmp_path).is_file()
