"""One hash over all records of a scale."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from tap.config import load_scale
from tap.provenance.ledger import read_ledger
from tap.provenance.record import sealed
from tap.provenance.root_hash import root_hash
from tap.runs import Run

EVALUATION = Run("smoke", "seg", "tap", 0.5).folder / "evaluation.json"


def current():
    return root_hash(read_ledger(load_scale("smoke")))


def resealed(path, **changes):
    path.write_text(sealed(json.loads(path.read_text()) | changes))


def test_it_is_what_sha256sum_and_sort_make_of_the_records(finished):
    command = (
        "cd results/smoke && grep -rl --include='*.json' '\"seal\": ' . | sed 's#^[.]/##' "
        "| grep -v -e '^audit/' -e '^profiles/' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert current() == done.stdout.split()[0]


def test_any_record_of_the_scale_changes_it_and_nothing_else_does(finished):
    before = current()
    resealed(EVALUATION, threads=7)
    changed = current()
    assert changed != before
    EVALUATION.unlink()
    assert current() not in (before, changed)
    Path("results/smoke/notes.txt").write_text("")
    after = current()
    resealed(Path("results/smoke/audit/audit.record.json"), threads=7)
    shutil.rmtree("paper_tables")
    assert current() == after


def test_the_data_count_through_the_records_of_what_read_them(finished):
    before = current()
    resealed(Path("data/microscopy/record.json"), threads=7)
    assert current() == before, "prepared again they may have other times"
    content = json.loads(EVALUATION.read_text())
    assert "data/microscopy/manifest.json" in content["inputs"]


def test_without_records_it_is_that_of_an_empty_text(finished):
    shutil.rmtree("results")
    assert current() == hashlib.sha256(b"").hexdigest()
