"""The page of kept patches in a real browser: images, methods, and a slider over the blocks."""

import re
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser, visit

from tap.paper.kept_patches import to_html
from tap.studies.kept_patches import KeptByMethod, KeptPatches, ShownImage
from tap.studies.pictured import Pictured

GRID = (2, 2)

VISIT = """
  const told = () => [...document.querySelectorAll("canvas")].map((canvas) => canvas.getAttribute("aria-label"));
  const until = async (words) => {
    while (!String(told()[0]).includes(words)) await new Promise((next) => setTimeout(next, 20));
  };
  const block = document.getElementById("block");
  await until("block 12");
  const row = [...document.querySelector("canvas").getContext("2d").getImageData(0, 0, 8, 1).data];
  const seen = { end: told(), kept: row.slice(0, 4), removed: row.slice(-4) };
  block.value = 2;
  block.dispatchEvent(new Event("input"));
  await until("block 2");
  seen.early = told();
  document.querySelectorAll(".thumb")[1].click();
  block.value = 3;
  block.dispatchEvent(new Event("input"));
  await until("2 of 4");
  seen.other = told()[0];
  return seen;
"""


def mask(*kept: int) -> np.ndarray:
    return np.isin(np.arange(4), kept)


@pytest.fixture(scope="module")
def page() -> str:
    images = tuple(ShownImage(number, np.full((8, 8, 3), 200, np.uint8), GRID) for number in (3, 11))
    tap = KeptByMethod("tap", "cls/tap/r0.50/main/s0", ({3: mask(0, 2, 3), 6: mask(0)}, {3: mask(1, 2)}), merges=False)
    tome = KeptByMethod("tome", "cls/tome/r0.50/main/s0", ({1: mask(0, 1)}, {1: mask(0, 1)}), merges=True)
    pictured = Pictured(3, images[0].pixels, (4, 4), None, (), None)
    found = KeptPatches("cls", 12, 0.5, images, (tap, tome), pictured, ())
    return to_html(found, "smoke", "fashion_mnist")


@needs_browser
def test_the_slider_goes_through_the_blocks(page: str, tmp_path: Path) -> None:
    seen, console = visit(page, VISIT, tmp_path)
    assert console == []
    assert seen["end"] == [
        "TAP-J: 1 of 4 patches left after block 12",
        "ToMe: 2 of 4 patches left after block 12",
    ]
    assert seen["early"][0] == "TAP-J: 4 of 4 patches left after block 2"
    assert seen["other"] == "TAP-J: 2 of 4 patches left after block 3"
    assert seen["kept"] == [200, 200, 200, 255]
    assert seen["removed"][0] < 80


def test_the_page_says_what_it_shows_and_holds_everything(page: str) -> None:
    assert "Validation images of Fashion-MNIST, trained methods of smoke scale at keep rate 0.5" in page
    assert "these numbers mean nothing" in page
    assert "ToMe: a bright patch stands for those that were merged into it." in page
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert all(link.startswith("data:") for link in links)
    assert not re.search(r"@import|url\(|fetch\(|https?://", page)
