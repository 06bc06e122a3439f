"""A table of settings rests on the settings that its record names, and those on the records of the runs."""

import json
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.registry import JOBS
from tap.paper.deep.settings import with_recorded_settings
from tap.paper.evidence import Evidence
from tap.paper.tables.build import build_table, render_table
from tap.provenance.ledger import read_ledger
from tap.provenance.publish import tables_folder
from tap.provenance.record import sealed

NAME = "tab_training_config"
RECORD = Path(f"results/smoke/tables/{NAME}.record.json")


@pytest.fixture
def with_table(forger):
    """A forger's project that has a table of settings."""
    stamp = JOBS["table"].stamp(load_scale("smoke"), (NAME,))
    build_table(NAME, "smoke", tables_folder("smoke"), stamp=stamp)
    return forger


def test_settings_that_have_moved_on_since_are_no_finding(with_table, deep):
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("keep_rates:", "tasks.seg.method.batch_size: 7, keep_rates:"))
    assert load_scale("smoke").tasks["seg"].method.batch_size == 7
    assert [line for line in deep() if "tables/" in line] == []


def test_a_table_of_settings_that_no_run_had_is_found(with_table, deep):
    content = json.loads(RECORD.read_text())
    content["parameters"]["settings"]["tasks"]["seg"]["method"]["batch_size"] = 7
    RECORD.write_text(sealed(content))
    forged = with_recorded_settings(Evidence("smoke"), read_ledger(load_scale("smoke")).records[RECORD.as_posix()])
    for suffix, text in render_table(NAME, forged).items():
        RECORD.with_name(NAME + suffix).write_bytes(text)
    with_table.reseal()
    start = f"{RECORD}: settings, seg/"
    found = [line for line in deep() if line.startswith(start)]
    assert found
    assert all("train.batch_size: recorded 7, recomputed " in line for line in found), found


def test_settings_of_a_form_that_today_does_not_know_are_a_finding(with_table, deep):
    content = json.loads(RECORD.read_text())
    content["parameters"]["settings"]["tasks"]["seg"]["unknown"] = 1
    RECORD.write_text(sealed(content))
    with_table.reseal()
    assert any(f"{RECORD}: its settings are of an earlier form" in line for line in deep())
