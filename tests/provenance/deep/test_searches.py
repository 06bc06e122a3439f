"""A search of settings states nothing beside its scores that does not follow from them."""

import json
from datetime import UTC, datetime

import pytest

from tap.config import load_scale
from tap.paper.deep.searches import SEARCHES, check_searches
from tap.plan.tuning import rounds_of, search_path
from tap.provenance.ledger import read_ledger
from tap.provenance.record import Stamp, record_job
from tap.studies.tuning_outcome import as_csv, outcome_of
from tap.task_facts import CLS

CFG = load_scale("desk")


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """Writes a search of classification, changed by the tests, with a record that agrees."""
    monkeypatch.chdir(tmp_path)

    def write(search="options", change=lambda content: None, table=lambda text: text):
        candidates = [each for some in rounds_of(CFG, "cls", search) for each in some]
        scores = {(each.method, each.number, 0): 60.0 + 3 * each.number % 7 for each in candidates}
        content = outcome_of(CFG, "cls", search, CLS.score, scores) | {"calibration_images": 2000}
        text = as_csv(content["methods"])
        change(content)
        path = search_path("desk", "cls", search)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        path.with_suffix(".csv").write_text(table(text))
        stamp = Stamp("tune", "f" * 64, {"task": "cls", "search": search})
        outputs = [path, path.with_suffix(".csv")]
        record_job(path.with_suffix(".record.json"), stamp, inputs=[], outputs=outputs, started=datetime.now(UTC))
        return check_searches(CFG, read_ledger(CFG))

    return write


@pytest.mark.parametrize("search", ["options", "budget"])
def test_an_honest_search_is_what_it_says(searched, search):
    found = searched(search)
    assert found.compared == {SEARCHES: 1}
    assert (found.differences, found.faults) == ([], [])


def test_another_best_one_is_found(searched):
    def change(content):
        content["methods"]["tap"]["best"] = 1

    (found,) = searched(change=change).differences
    assert str(found) == "results/desk/tune/cls/options.json: methods.tap.best: recorded 1, recomputed 2"


def test_a_better_mean_a_shorter_budget_and_a_line_of_the_table_are_found(searched):
    def mean(content):
        content["methods"]["tap"]["candidates"][0]["mean"] = 99.0

    def shorter(content):
        content["agreement_with_next"], content["shortest"] = [1.0, 1.0], 64.0

    assert "mean: recorded 99.0" in str(searched(change=mean).differences[0])
    assert "options.csv" in str(searched(table=lambda text: text.replace(",63.0", ",64.0", 1)).differences[0])
    assert any("shortest: recorded 64.0" in str(each) for each in searched("budget", shorter).differences)


def test_scores_that_no_candidate_has_are_a_finding(searched):
    found = searched(change=lambda content: content["methods"].pop("tap"))
    assert "options.record.json: cannot be followed" in found.faults[0]
