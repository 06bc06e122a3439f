"""Records are read while jobs of the same workflow replace theirs."""

from tap.config import load_scale
from tap.provenance.ledger import read_ledger


def test_a_record_that_is_removed_while_records_are_read_is_left_out(tmp_path):
    tables = tmp_path / "results/smoke/tables"
    tables.mkdir(parents=True)
    (tables / "tab_other.record.json").symlink_to(tables / "gone")  # is listed, and cannot be opened
    ledger = read_ledger(load_scale("smoke"), tmp_path)
    assert not ledger.records
    assert not ledger.unreadable
