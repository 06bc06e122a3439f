"""The list of mutants fits the code: `python tests/stress/mutations.py` would stop at the first that does not."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)
PACKAGE = Path(__file__).resolve().parents[2] / "tap"


@pytest.mark.parametrize(
    "mutant",
    [*MODULE.MUTANTS, *(mutant for mutant, _ in MODULE.EQUAL.values())],
    ids=lambda mutant: f"{mutant.file}-{mutant.name}",
)
def test_what_a_mutant_changes_is_there_once(mutant):
    assert (PACKAGE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
