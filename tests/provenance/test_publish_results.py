"""A verified copy of a scale, and the page that says what it is."""

import re
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.staleness import Today
from tap.provenance import publish_results as publishing
from tap.provenance.bundle import write_bundle
from tap.provenance.files import sha256_file
from tap.provenance.ledger import read_ledger
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import Kind, verify
from tap.provenance.weight_selection import WeightSelection

PUBLISHED = Path("published/smoke")
METRICS = "runs/seg/tap/r0.50/main/s0/metrics.json"


@pytest.fixture
def smoke(finished, monkeypatch):
    """Settings of a project that is finished but for its figures."""
    monkeypatch.setattr(publishing, "NEEDED", ("table", "headline", "audit"))
    return load_scale("smoke")


def publish(cfg, **options):
    return publishing.publish_results(cfg, Today(cfg).staleness, **options)


def copied() -> set[str]:
    return {path.relative_to(PUBLISHED).as_posix() for path in PUBLISHED.rglob("*") if path.is_file()}


def test_everything_but_weights_is_copied_and_verifies_in_its_new_place(smoke):
    assert publish(smoke) == PUBLISHED
    results = Path("results/smoke")
    files = {path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file()}
    assert copied() == {name for name in files if not name.endswith(".safetensors")} | {"README.md"}
    found = verify(smoke, Today(smoke).staleness, results=PUBLISHED)
    assert {(finding.kind, Path(finding.path).suffix) for finding in found.findings} == {(Kind.MISSING, ".safetensors")}
    assert list(PUBLISHED.parent.iterdir()) == [PUBLISHED]


def test_the_page_says_what_made_it_and_what_cannot_be_checked(smoke):
    publish(smoke)
    text = (PUBLISHED / "README.md").read_text()
    assert f"`{root_hash(read_ledger(smoke))}`" in text
    assert "| on | a processor; " in text
    assert re.search(r"\| when \| (\d{4}-\d\d-\d\d)( to (?!\1)\d{4}-\d\d-\d\d)? \|", text)
    assert re.search(r"\| with \| .*torch \d", text)
    assert "7 files of weights, 0.0 MB in float32; **not published**" in text
    assert "What cannot be verified without the weights" in text


@pytest.mark.parametrize(
    ("selection", "partial"), [(WeightSelection(everything=True), False), (WeightSelection(methods=("tap",)), True)]
)
def test_the_page_says_what_the_published_archive_leaves_out(smoke, selection, partial):
    archive = write_bundle(smoke, Today(smoke).staleness, selection=selection).path
    bundle = publishing.PublishedBundle.of(archive, smoke, "a release")
    publish(smoke, bundle=bundle)
    text = (PUBLISHED / "README.md").read_text()
    size = f"{archive.stat().st_size / 1e6:.1f} MB"
    assert f"published in `{archive.name}` at a release ({size}, sha256 `{sha256_file(archive)}`)" in text
    assert (f"; {7 - len(bundle.left_out)} of 7 published in" in text) == partial
    assert ("without those left out" in text) == partial
    archive.write_bytes(b"another")
    with pytest.raises(UserError, match=r"is not the file of smoke.*sha256"):
        publishing.PublishedBundle.of(archive, smoke)


def test_unsound_results_are_refused_and_what_was_published_stays(smoke):
    publish(smoke)
    before = copied()
    (Path("results/smoke") / METRICS).write_text("{}")
    with pytest.raises(UserError, match=r"metrics.json: edited"):
        publish(smoke)
    assert copied() == before


def test_an_unfinished_scale_is_refused(finished):
    with pytest.raises(UserError, match=r"results/smoke: no figure yet; .* finish the scale"):
        publish(load_scale("smoke"))
    assert not PUBLISHED.exists()


def test_an_edited_published_file_is_found(smoke):
    publish(smoke)
    (PUBLISHED / METRICS).write_text("{}")
    edited = [
        finding
        for finding in verify(smoke, Today(smoke).staleness, results=PUBLISHED).findings
        if finding.kind == Kind.EDITED
    ]
    assert [finding.path for finding in edited] == [f"results/smoke/{METRICS}"]
