"""The list of mutants fits the code: `python tests/stress/mutations.py` would stop at the first that does not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutants import EQUAL, MUTANTS

PACKAGE = Path(__file__).resolve().parents[2] / "tap"


@pytest.mark.parametrize(
    "mutant",
    [*MUTANTS, *(mutant for mutant, _ in EQUAL.values())],
    ids=lambda mutant: f"{mutant.file}-{mutant.name}",
)
def test_what_a_mutant_changes_is_there_once(mutant):
    assert (PACKAGE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
