"""Variants as data: what they change, and which jobs an edit of one repeats."""

import pytest

from tap.config import load_scale
from tap.config import variants as entries
from tap.config.variants import VARIANTS, Variant
from tap.errors import UserError
from tap.jobs.registry import JOBS
from tap.plan import runs, specs
from tap.plan.runs import runs_of_table, variant_runs
from tap.plan.specs import job_spec
from tap.plan.starts import start_run
from tap.runs import Run

CFG = load_scale("smoke", {"variants": list(VARIANTS)})
RUNS = {run.id: run for task in CFG.tasks for run in runs_of_table(CFG, task)}


TRAININGS = set(RUNS.values())
TRAININGS |= {start_run(run) for run in TRAININGS if job_spec(CFG, run).start_from == "dense"}


def planned():
    """What every training and evaluation of the scale is planned with."""
    found = {f"evaluate {run.id}": JOBS["evaluate"].planned(CFG, run) for run in RUNS.values()}
    return found | {f"train {run.id}": JOBS["train"].planned(CFG, run) for run in TRAININGS}


def edited(monkeypatch, name, entry):
    """The entries with one of them replaced, wherever they are read."""
    changed = {**VARIANTS, name: entry}
    for module in (entries, runs):
        monkeypatch.setattr(module, "VARIANTS", changed)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_changes_what_its_entry_says_and_nothing_else(name):
    for run in (run for run in RUNS.values() if run.variant == name):
        spec = job_spec(CFG, run).model_dump(mode="json")
        main = job_spec(CFG, Run(run.scale, run.task, run.method, run.rate, seed=run.seed)).model_dump(mode="json")
        differs = False
        for path, value in VARIANTS[name].changes.items():
            *sections, last = path.split(".")
            ours, theirs = spec, main
            for section in sections:
                ours, theirs = ours[section], theirs[section]
            assert ours[last] == value, path
            differs |= value != theirs[last]
            ours[last] = theirs[last]
        assert differs
        assert spec == main | {"variant": name}


def test_a_task_has_the_variants_that_its_entry_names_at_the_main_rate(monkeypatch):
    edited(monkeypatch, "no_gumbel", Variant("of dense tasks", {"controller.gumbel": False}, ("tap",), ("seg", "det")))
    given = load_scale("smoke", {"variants": ["no_gumbel"], "tasks.det.seeds": [2, 3]})
    assert variant_runs(given, "cls") == []
    assert variant_runs(given, "det") == [Run("smoke", "det", "tap", 0.5, "no_gumbel", seed) for seed in (2, 3)]
    with pytest.raises(UserError, match=r"variant: cls/tap/r0\.50/no_gumbel/s0 cannot be made; known here are main"):
        job_spec(CFG, Run("smoke", "cls", "tap", 0.5, "no_gumbel"))


def test_an_unknown_variant_names_the_nearest():
    with pytest.raises(UserError, match=r"variants: 'hardonly' is not known; did you mean 'hard_only'\?"):
        load_scale("smoke", {"variants": ["hardonly"]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recovery.scael": 1.0}, r"variant 'fixed_tau': recovery\.scael: unknown key; did you mean 'scale'\?"),
        ({"recovery.scale": 2.0}, r"variant 'fixed_tau': recovery\.scale"),
        ({"nothing.at_all": 2.0}, r"variant 'fixed_tau': nothing: unknown key"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_with_its_name(monkeypatch, changes, message):
    edited(monkeypatch, "fixed_tau", Variant("wrong", changes, ("tap",)))
    with pytest.raises(UserError, match=message):
        job_spec(CFG, Run("smoke", "seg", "tap", 0.5, "fixed_tau"))


@pytest.mark.parametrize(
    ("name", "changes", "kinds"),
    [
        ("hard_only", {"controller.estimator": "independent"}, {"train", "evaluate"}),
        ("no_gumbel", {"controller.gumbel": False, "controller.tau_end": 0.5}, {"train", "evaluate"}),
    ],
)
def test_another_value_in_an_entry_repeats_exactly_its_own_runs(monkeypatch, name, changes, kinds):
    before = planned()
    known = VARIANTS[name]
    edited(monkeypatch, name, Variant(known.about, changes, known.methods, known.tasks))
    after = planned()
    expected = {job for job in before if job.split()[0] in kinds and f"/{name}/" in job}
    assert expected
    assert {job for job in before if before[job] != after[job]} == expected


@pytest.mark.parametrize("start", ["pretrained", "dense"])
def test_who_starts_from_what_is_a_parameter_of_exactly_those_trainings(monkeypatch, start):
    """No fingerprint covers `training_of`: what it decides stands among the parameters of the trainings."""
    expected = {f"train {run.id}" for run in TRAININGS if job_spec(CFG, run).start_from == start}
    before, decide = planned(), specs.training_of

    def edit(*arguments):
        train, found = decide(*arguments)
        return train, "scratch" if found == start else found

    monkeypatch.setattr(specs, "training_of", edit)
    after = planned()
    assert expected
    assert {job for job in before if before[job] != after[job]} == expected
