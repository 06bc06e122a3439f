"""Records are read while jobs of the same workflow replace theirs, with the profiles that belong to them."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.provenance.finding import Kind
from tap.provenance.ledger import read_ledger
from tap.provenance.record import Stamp, record_job
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import verify


def test_a_record_that_is_removed_while_records_are_read_is_left_out(tmp_path):
    tables = tmp_path / "results/smoke/tables"
    tables.mkdir(parents=True)
    (tables / "tab_other.record.json").symlink_to(tables / "gone")  # is listed, and cannot be opened
    ledger = read_ledger(load_scale("smoke"), tmp_path)
    assert not ledger.records
    assert not ledger.unreadable


@pytest.fixture
def with_profile(finished):
    """A finished project in which a table was made from this machine's profile."""
    profile = Path("results/profiles/cpu-some/smoke/cls.json")
    profile.parent.mkdir(parents=True)
    profile.write_text("{}")
    started = datetime.now(UTC)
    record_job(profile.with_suffix(".record.json"), Stamp("profile"), inputs=[], outputs=[profile], started=started)
    table = Path("results/smoke/tables/tab_speed.csv")
    table.write_text("")
    record_job(table.with_suffix(".record.json"), Stamp("table"), inputs=[profile], outputs=[table], started=started)
    return profile


def missing(results):
    found = verify(load_scale("smoke"), lambda content: None, results=results)
    return [finding.path for finding in found.findings if finding.kind == Kind.MISSING], found.ledger


@pytest.mark.parametrize("results", [None, "results/smoke"])
def test_the_profiles_of_the_machine_are_found_however_the_folder_is_named(with_profile, results):
    absent, ledger = missing(results)
    assert not absent
    assert ledger.maker[with_profile.as_posix()].endswith("cls.record.json")
    assert root_hash(ledger) == root_hash(read_ledger(load_scale("smoke")))


def test_a_copy_has_profiles_of_its_own(with_profile):
    shutil.copytree("results/smoke", "published/smoke")
    assert with_profile.as_posix() in missing("published/smoke")[0]
    shutil.move("results/profiles", "published/smoke/profiles")
    absent, ledger = missing("published/smoke")
    assert not absent
    assert root_hash(ledger) == root_hash(read_ledger(load_scale("smoke")))
