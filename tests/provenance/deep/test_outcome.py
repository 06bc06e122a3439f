"""What a deep verification sets aside of results of other code: values that today's does not state, and no others."""

import pytest

from tap.paper.deep.outcome import Outcome
from tap.paper.difference import Difference

OLD, NEW = "results/desk/tables/old.csv", "results/desk/tables/new.csv"


@pytest.mark.parametrize("nothing", [None, "", "0 times", "no such line", "not measured"])
def test_a_value_that_other_code_stated_and_todays_does_not_is_a_note(nothing):
    outcome = Outcome(differences=[Difference(OLD, "speed", 1.1, nothing), Difference(NEW, "speed", 1.1, nothing)])
    outcome.set_aside({OLD})
    assert [item.file for item in outcome.differences] == [NEW]
    (note,) = outcome.notes
    assert note.startswith("1 values in 1 files of other code not compared")


@pytest.mark.parametrize(
    ("field", "recorded", "recomputed"),
    [("top1", 98.3, 88.3), ("top1", 5.0, 0), ("88.3 in rows of tables", "0 times", "1 times")],
)
def test_another_value_is_a_finding_whoever_made_the_file(field, recorded, recomputed):
    outcome = Outcome(differences=[Difference(OLD, field, recorded, recomputed)])
    outcome.set_aside({OLD})
    assert len(outcome.lines) == 1
    assert not outcome.notes
