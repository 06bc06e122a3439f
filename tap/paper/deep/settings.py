"""Settings that a table was made from: those that its record names, which must be the ones that the runs had."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, run_of_record
from tap.paper.deep.texts import tree_differences
from tap.paper.difference import Difference
from tap.paper.evidence import Evidence
from tap.plan.specs import job_spec
from tap.provenance.ledger import Ledger, Record

SETTINGS = "settings of runs"
_STATED = "settings"


def with_recorded_settings(evidence: Evidence, record: Record) -> Evidence:
    """The same results under the settings that a table's record names; as they are where it names none.

    Today's settings may have moved on since results were published.

    Raises:
        UserError: the settings have a form that today's code does not know.
    """
    stated = record.content["parameters"].get(_STATED)
    if stated is None:
        return evidence
    under = replace(evidence)
    under.settings = _settings(record.name, stated, evidence.settings)
    return under


def check_settings(cfg: ScaleConfig, ledger: Ledger, stale: Collection[str] = ()) -> Outcome:
    """Settings that records of tables name against those in the records of every training and evaluation.

    A table of settings is made from nothing else, so this is what keeps anybody from naming others.

    Args:
        cfg: settings of today.
        ledger: the records.
        stale: names of records that today's code or settings would not give: their settings may have another form.
    """
    outcome = Outcome()
    looked_at: set[str] = set()
    earlier: set[str] = set()
    for table in by_job(ledger, "table"):
        stated = table.content["parameters"].get(_STATED)
        text = json.dumps(stated, sort_keys=True)
        if stated is None or text in looked_at:
            continue
        looked_at.add(text)
        with outcome.following(table.name):
            then = _settings(table.name, stated, cfg)
            for record in by_job(ledger, "train", "evaluate"):
                had = _spec_of(record)
                if had is None and record.name in stale:
                    earlier.add(record.name)
                    continue
                with outcome.following(record.name):
                    outcome.add(SETTINGS, 1, _beside(table.name, then, record, had))
    if earlier:
        outcome.notes.append(f"settings of {len(earlier)} jobs of other code not compared: they are of an earlier form")
    return outcome


def _spec_of(record: Record) -> JobSpec | None:
    """The settings that a run had; None if they are of an earlier form."""
    try:
        return JobSpec.model_validate(record.content.get("spec"))
    except ValidationError:
        return None


def _beside(table: str, cfg: ScaleConfig, record: Record, had: JobSpec | None) -> list[Difference]:
    """What a run's settings would be under those of a table, beside those that it had."""
    if had is None:
        raise UserError(f"{record.name}: its settings are of an earlier form, so they are not compared")
    run = run_of_record(record)
    pair = (spec.model_dump(mode="json") for spec in (job_spec(cfg, run), had))
    return list(tree_differences(table, *pair, f"{_STATED}, {run.id}"))


def _settings(name: str, stated: Any, today: ScaleConfig) -> ScaleConfig:
    """Recorded settings, which hold the tasks that were made; tasks that they only refer to are today's."""
    made = stated["tasks"]
    others = {task: settings.model_dump() for task, settings in today.all_tasks.items() if task not in made}
    try:
        return ScaleConfig.model_validate({**stated, "tasks": {**made, **others}}).only(list(made))
    except ValidationError as error:
        raise UserError(f"{name}: its settings are of an earlier form, so its table is not made anew") from error
