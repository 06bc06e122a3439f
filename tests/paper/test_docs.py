"""The pages name things that exist."""

import re
from pathlib import Path

import pytest

from tap.config.load import load_scale
from tap.paper.tables.build import SUFFIXES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:tap|tests|workflow|docs|benchmarks)/[\w./-]*\w)`", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_every_function_of_the_method_page_is_in_its_module() -> None:
    checked = 0
    for line in (ROOT / "docs/method.md").read_text().splitlines():
        cells = line.split("|")
        if len(cells) != 6 or "tap/" not in cells[3]:
            continue
        files = [ROOT / path for path in re.findall(r"`(tap/[\w./]+\.py)`", cells[3])]
        names = [name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", cells[4]) if "/" not in name]
        for name in names if files else ():
            pattern = re.compile(rf"^\s*(?:def|class) {name}\b", re.MULTILINE)
            assert any(pattern.search(file.read_text()) for file in files), f"{name} is not in {files}"
            checked += 1
    assert checked > 25


def test_readme_is_short_and_names_every_scale() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 200
    assert all(f"| `{scale}`" in text for scale in ("smoke", "desk", "paper"))


def test_the_page_on_tables_names_every_file() -> None:
    text = (ROOT / "docs/tables.md").read_text()
    assert all(f"`<label>{suffix}`" in text for suffix in SUFFIXES)


def test_settings_that_the_notes_name_exist() -> None:
    """The notes point to settings by the end of their dotted name."""
    text = (ROOT / "docs/paper-notes.md").read_text()
    tree = load_scale("paper", root=ROOT).model_dump()
    for name in set(re.findall(r"`((?:controller|optimizer|model|data)\.\w+)`", text)):
        section, key = name.split(".")
        task = tree["tasks"]["cls"]
        holder = {"controller": tree["controller"], "optimizer": task["dense"]["optimizer"]}.get(section) or task[
            section
        ]
        assert key in holder, name


@pytest.mark.slow
def test_the_example_of_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert names["trace"].final_counts.tolist() == [98, 98]
    assert names["logits"].shape == (2, 1000)
