"""What the jobs of a stage read of the settings is found out from them."""

from tap.config import load_scale
from tap.jobs.stage_settings import sections, settings_read, with_other_values
from tap.task_facts import TASKS

DESK = load_scale("smoke", {"tasks.cls.methods": ["dense", "tap"], "tasks.cls.seeds": [0]}).only(["cls"])


def test_sections_are_read_by_the_stages_whose_jobs_plan_with_them():
    read = settings_read(DESK)
    assert read["data"] == ["tasks.*.data"]
    assert set(read["pretrain"]) == {"tasks.*.data", "tasks.*.model", "tasks.*.pretrain"}
    assert {"tasks.*.dense", "tasks.*.method", "tasks.*.start_from"} <= set(read["base"])
    assert not {"tasks.*.eval", "controller", "keep_rates"} & set(read["base"])
    assert {"keep_rates", "controller", "tasks.*.methods", "tasks.*.method", "tasks.*.chosen"} <= set(read["tap"])
    assert {"tasks.*.eval", "tasks.*.controls"} <= set(read["evaluate"])
    assert {"tasks.*.eval", "tasks.*.probes"} <= set(read["probes"])
    assert {"main_rate", "controller", "tasks.*.method", "tasks.*.chosen"} <= set(read["audit"])
    assert not {"tasks.*.eval", "tasks.*.data", "tasks.*.probes"} & set(read["audit"])
    assert "verify" not in read


def test_how_a_job_is_run_is_read_by_none_but_tables_of_all_settings():
    read = settings_read(DESK)
    assert [stage for stage, names in read.items() if {"device", "processes", "tasks.*.profile"} & set(names)] == [
        "tables"
    ]


def test_every_section_gets_other_values_that_it_may_have():
    known = load_scale("smoke")
    for name in sections():
        other = with_other_values(known, name)
        part = name.removeprefix("tasks.*.")
        pairs = [(known, other)] if part == name else [(known.tasks[task], other.tasks[task]) for task in TASKS]
        before, after = ([getattr(pair[side], part) for pair in pairs] for side in (0, 1))
        empty = all(value is None for value in before)
        assert (before == after) == empty or part in ("options", "variants", "methods"), name
