"""What a search of methods' own settings states beside its scores, made anew from these."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tap.config.scale import ScaleConfig
from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, place_of, read_json
from tap.paper.deep.texts import text_differences
from tap.plan.tuning import Search, search_path
from tap.provenance.ledger import Ledger
from tap.studies.tuning_outcome import as_csv, outcome_of
from tap.task_facts import TASKS

SEARCHES = "searches of settings"


def check_searches(cfg: ScaleConfig, ledger: Ledger, stale: Collection[str] = ()) -> Outcome:
    """Candidates, means, the best of each method or the shortest length, and the lines of the CSV, from the scores.

    Args:
        cfg: the settings in use; a search of others is stale.
        ledger: the records.
        stale: names of records that are not of today's code and settings.
    """
    outcome = Outcome()
    for record in by_job(ledger, "tune"):
        if record.name in stale:
            continue
        with outcome.following(record.name):
            task = str(record.content["parameters"]["task"])
            search: Search = "budget" if record.content["parameters"]["search"] == "budget" else "options"
            file = search_path(cfg.scale, task, search).as_posix()
            stated = read_json(ledger, file)
            anew = stated | outcome_of(cfg, task, search, TASKS[task].score, _scores(stated))
            table = f"{file.removesuffix('.json')}.csv"
            found = text_differences(file, json.dumps(stated), json.dumps(anew))
            found += text_differences(table, place_of(ledger, table).read_text("utf-8"), as_csv(anew["methods"]))
            outcome.add(SEARCHES, 1, found)
    return outcome


def _scores(stated: dict[str, Any]) -> dict[tuple[str, int, int], float | None]:
    return {
        (method, int(each["number"]), int(seed)): score
        for method, found in stated["methods"].items()
        for each in found["candidates"]
        for seed, score in each["scores"].items()
    }
