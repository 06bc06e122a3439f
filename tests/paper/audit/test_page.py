"""The page in a real browser, and what it must hold wherever it is opened."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import browse, needs_browser, visit

from tap.paper.audit.audit import Alteration, Audit, make_audit
from tap.paper.audit.outcome import Verdict
from tap.paper.audit.page import to_html
from tap.paper.audit.report import to_json, to_markdown
from tap.paper.reported import reported_labels

# Does what a reader does, and says what it saw.
VISIT = """
  const by = (query) => document.querySelector(query);
  by('[data-filter="contradicted"]').click();
  const shown = document.querySelectorAll("details.claim:not([hidden])").length;
  by("#tab-cls tbody tr:last-child .number").click();
  const panel = by("#panel");
  const before = panel.querySelectorAll(".run").length;
  const link = [...panel.querySelectorAll("button.chain")][0];
  if (link) link.click();
  const after = panel.querySelectorAll(".run").length;
  const text = panel.textContent;
  by("#close").click();
  by(".enlarge").click();
  const enlarged = by("#large").open && by("#large img").alt;
  by("#large").click();
  by("#theme").click();
  return { shown, before, after, open: panel.open, enlarged, shrunk: !by("#large").open,
    theme: document.documentElement.dataset.theme,
    fingerprint: text.includes("ffffffffffff"), metrics: text.includes("final_tokens_mean") };
"""


@pytest.fixture(scope="module")
def audit(audited: Path) -> Audit:
    return make_audit("desk", audited)


@pytest.fixture(scope="module")
def page(audit: Audit) -> str:
    return to_html(audit)


@pytest.mark.slow
@needs_browser
def test_the_page_works_in_a_browser_without_any_console_message(audit: Audit, page: str, tmp_path: Path) -> None:
    seen, console = visit(page, VISIT, tmp_path)
    assert console == []
    assert seen["shown"] == audit.count(Verdict.CONTRADICTED) > 0
    assert (seen["before"], seen["after"], seen["open"]) == (3, 4, False)
    assert seen["enlarged"].startswith("No pruning, classification, seed 0: Validation images")
    assert seen["shrunk"]
    assert seen["theme"] in ("dark", "light")
    assert seen["fingerprint"]
    assert seen["metrics"]


# The page in a frame as narrow as a telephone; what reaches over its edge, except inside of boxes that scroll.
NARROW = """
  const frame = document.createElement("iframe");
  frame.style = "width: 390px; border: 0";
  frame.srcdoc = JSON.parse(document.getElementById("inner").textContent);
  const loaded = new Promise((next) => frame.addEventListener("load", next));
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument;
  for (const box of page.querySelectorAll("details")) box.open = true;
  const cut = [...page.querySelectorAll("body *")].filter((element) =>
    !element.closest(".scroll *, dialog, nav *, .skip, pre *") && element.getBoundingClientRect().right > 391);
  const all = page.documentElement;
  return { beyond: all.scrollWidth - all.clientWidth, cut: cut.map((element) => element.className) };
"""


@pytest.mark.slow
@needs_browser
def test_nothing_is_cut_off_on_a_telephone(page: str, tmp_path: Path) -> None:
    inner = json.dumps(page).replace("<", "\\u003c")
    outer = f'<!doctype html><body><script type="application/json" id="inner">{inner}</script></body>'
    assert visit(outer, NARROW, tmp_path)[0] == {"beyond": 0, "cut": []}


@needs_browser
def test_a_console_error_would_be_seen(page: str, tmp_path: Path) -> None:
    broken = page.replace("</body>", "<script>undefined_name();</script></body>")
    assert any("undefined_name" in line for line in browse(broken, tmp_path)[1])


class Elements(HTMLParser):
    """Every element with its attributes, and ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_the_page_holds_everything_and_asks_the_network_for_nothing(page: str) -> None:
    elements = Elements(page).elements
    outside = [attrs[name] for _, attrs in elements for name in ("src", "href") if name in attrs]
    assert all(link.startswith(("#", "data:")) for link in outside)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", page)
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    assert {label.replace(":", "-") for label in reported_labels()} <= set(ids)
    assert all(link[1:] in ids for link in outside if link.startswith("#"))
    assert all(attrs.get("alt") for tag, attrs in elements if tag == "img")
    assert sum(tag == "img" for tag, _ in elements) == 1


def test_pages_of_single_images_are_linked_where_they_are(results) -> None:
    results.gather(results.run("tap", 0.9))
    folder = results.root / "results/desk/kept_patches"
    assert "kept_patches" not in to_html(make_audit("desk", results.root))
    folder.mkdir()
    for task in ("seg", "cls"):
        (folder / f"{task}.html").write_text("")
    elements = Elements(to_html(make_audit("desk", results.root))).elements
    links = [attrs["href"] for tag, attrs in elements if tag == "a" and not str(attrs["href"]).startswith("#")]
    assert links == ["../kept_patches/cls.html", "../kept_patches/seg.html"]
    assert all((results.root / "results/desk/audit" / str(link)).resolve().is_file() for link in links)


def test_text_from_results_cannot_become_markup(page: str) -> None:
    assert "<b>&" not in page
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert data["links"]["cls/tap/r0.50/main/s0"]["metrics"]["device"] == "</script><b>& 'machine'"


def test_a_cell_leads_to_its_runs_and_these_to_what_they_were_made_from(audit: Audit) -> None:
    assert audit.chain["cls/tap/r0.50/main/s0"].before == ("cls/dense/r1.00/main/s0",)
    assert set(audit.chain["cls/tap/r0.50/main/s0"].records) == {"run.json"}
    table = next(table for table in audit.tables if table.label == "tab:cls")
    line = next(line for line in table.lines if line.key == "tap")
    theirs, ours = line.cells[1]
    assert (theirs, ours.text, ours.runs[:1]) == ("83.2", "70.00", ("cls/tap/r0.50/main/s0",))
    assert all(ours is None for line in table.lines if line.key == "tome" for _, ours in line.cells)


def test_verdicts_say_their_scale(audit: Audit) -> None:
    tree = json.loads(to_json(audit))
    assert all("at desk scale" in claim["headline"] for claim in tree["claims"])
    found = {claim["id"]: claim for claim in tree["claims"]}["gain-over-static"]
    assert found["verdict"] == "contradicted"
    assert found["headline"] == (
        "contradicted at desk scale, with Fashion-MNIST in the place of ImageNet-1K and labelled microscopy frames in "
        "the place of ADE20K and COCO (3 of 6 parts; the others need another scale)"
    )
    assert found["parts"][0]["runs"][:2] == ["cls/tap/r0.50/main/s0", "cls/static/r0.50/main/s0"]
    assert found["parts"][0]["by_seed"] == [-15.0, -15.0, -15.0]
    assert found["parts"][0]["p"] < 0.05
    assert found["parts"][0]["low"] < found["parts"][0]["high"] < 0
    assert found["parts"][0]["sentence"].endswith(" Measured with Fashion-MNIST in the place of ImageNet-1K.")
    assert found["parts"][1]["sentence"] == (
        "Not measured: mIoU of TAP-J, segmentation, keep rate 0.5; mIoU of Static rule, segmentation, keep rate 0.5."
    )


def test_no_sentence_of_an_audit_without_results_is_technical(results) -> None:
    """Nothing is measured, so every predicate says what it lacks."""
    for item in make_audit("desk", results.root).judgements:
        for outcome in item.outcomes:
            assert outcome.verdict == Verdict.NOT_MEASURED
            assert not re.search(r"results/|_|/r0|\bmiou\b|\btop1\b", outcome.sentence), outcome.sentence


def test_at_smoke_scale_nothing_is_judged(results) -> None:
    results.scale = "smoke"
    results.gather(results.run("tap", 0.9), results.run("static", 0.5))
    audit = make_audit("smoke", results.root)
    assert audit.count(Verdict.NOT_MEASURED) == len(audit.judgements)
    assert "these numbers mean nothing" in to_markdown(audit)
    assert "these numbers mean nothing" in to_html(audit)


@pytest.mark.parametrize("kind", ["edited", "unknown"])
@pytest.mark.parametrize(
    "path",
    [
        "results/desk/runs/cls/tap/r0.50/main/s0/metrics.json",
        "results/desk/runs/cls/dense/r1.00/main/s0/model.safetensors",  # what TAP was trained from
        "results/desk/tidy_cls.csv",
        "data/fashion_mnist/manifest.json",  # what no pruning was trained on
    ],
)
def test_claims_on_edited_files_are_not_judged_and_the_file_is_shown(
    audited: Path, audit: Audit, path: str, kind: str
) -> None:
    def verdict(audit: Audit) -> Verdict:
        return {item.claim.id: item.verdict for item in audit.judgements}["gain-over-static"]

    assert verdict(audit) == Verdict.CONTRADICTED
    assert 'role="alert"' not in to_html(audit)
    altered = make_audit("desk", audited, [Alteration(path, kind, "not what its record says")])
    assert verdict(altered) == Verdict.INCONCLUSIVE
    for shown in (to_html(altered), to_markdown(altered), to_json(altered)):
        assert path in shown
    assert 'role="alert"' in to_html(altered)


def test_claims_on_edited_data_are_not_judged(audited: Path) -> None:
    """Trainings name the record of their data; a finding names the file and that record."""
    record = "data/fashion_mnist/record.json"
    path = "data/fashion_mnist/train-images-idx3-ubyte"
    altered = make_audit("desk", audited, [Alteration(path, "edited", "not what its record says", record)])
    found = {item.claim.id: item for item in altered.judgements}["gain-over-static"]
    assert found.verdict == Verdict.INCONCLUSIVE
    assert path in found.outcomes[0].sentence
    other = make_audit("desk", audited, [Alteration("data/coco/a.jpg", "edited", "other", "data/coco/record.json")])
    assert {item.claim.id: item.verdict for item in other.judgements}["gain-over-static"] == Verdict.CONTRADICTED


def test_claims_on_an_edited_table_of_probes_are_not_judged(results) -> None:
    drops = {(name, block, None): drop for name, drop in (("attention_mean", 9.0), ("random", 1.0)) for block in (1, 2)}
    results.probe("cls", "layers", drops, seeds=(0, 1, 2))

    def first(*alterations: Alteration) -> Verdict:
        judgements = make_audit("desk", results.root, alterations).judgements
        return {item.claim.id: item for item in judgements}["abstract-early-attention"].outcomes[0].verdict

    assert first() == Verdict.SUPPORTED
    assert first(Alteration("results/desk/tidy_probes_seg.csv", "edited", "not what it was")) == Verdict.SUPPORTED
    assert first(Alteration("results/desk/tidy_probes_cls.csv", "edited", "not what it was")) == Verdict.INCONCLUSIVE


def test_other_findings_are_listed_and_change_no_verdict(audited: Path, audit: Audit) -> None:
    path = "results/desk/runs/cls/tap/r0.50/main/s0/metrics.json"
    after = make_audit("desk", audited, [Alteration(path, "stale", "the code has changed since")])
    assert [item.verdict for item in audit.judgements] == [item.verdict for item in after.judgements]
    assert "the code has changed since" in to_html(after)


def test_the_same_results_give_the_same_bytes(audited: Path, audit: Audit, page: str) -> None:
    again = make_audit("desk", audited)
    assert to_html(again) == page
    assert to_json(again) == to_json(audit)
