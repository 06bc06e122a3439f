"""What a search of methods' own settings tries, and what its result says of the settings in use."""

import math

import pytest
import yaml

from tap.config import load_scale
from tap.config.methods import DENSE, FROZEN, METHODS
from tap.config.schema import ChosenConfig
from tap.errors import UserError
from tap.jobs.kinds.tune import JOB, TuneKey
from tap.plan.runs import Run
from tap.plan.specs import job_spec
from tap.plan.tuning import (
    advice,
    candidate_spec,
    in_use,
    read_search,
    rounds_of,
    scaled,
    searched_methods,
    searched_seeds,
    yaml_lines,
)

DESK = load_scale("desk")
OF_REGISTERS = "register_starts x controller_lr_scales x register_lr_scales"
LARGEST = DESK.tasks["cls"].tune.controller_lr_scales[-1]
TAP_BEST = {"controller": {"register_start": "class_token"}, "optimizer": {"controller_lr_scale": LARGEST}}


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_every_method_has_as_many_candidates_that_differ(scale):
    cfg = load_scale(scale)
    for task, settings in cfg.tasks.items():
        (candidates,) = rounds_of(cfg, task, "options")
        wanted = settings.tune.methods or [name for name in settings.methods if not METHODS[name].method.frozen]
        assert {each.method for each in candidates} == set(wanted)
        for method in wanted:
            own = [candidate_spec(cfg, task, "options", each, 0) for each in candidates if each.method == method]
            assert len(own) == 4
            assert len({(spec.train.model_dump_json(), spec.controller.model_dump_json()) for spec in own}) == 4
            assert {spec.train.length for spec in own} == {own[0].train.length}
            assert len({spec.variant for spec in own}) == 4


def test_the_first_candidate_is_what_a_method_has_without_a_choice():
    for task in DESK.tasks:
        for each in rounds_of(DESK, task, "options")[0]:
            if each.number == 1:
                assert in_use(with_chosen(task, {}), task, each.method, each.values)


def test_registers_try_rates_of_everything_where_the_task_says_so():
    changes = {"tasks.cls.tune.controller_lr_scales": [1], "tasks.cls.tune.register_lr_scales": [1, 10]}
    found = [each for each in rounds_of(load_scale("desk", changes), "cls", "options")[0] if each.method == "tap"]
    common = DESK.tasks["cls"].method.optimizer.lr
    specs = [candidate_spec(DESK, "cls", "options", each, 0) for each in found]
    tried = [(spec.controller.register_start, spec.train.optimizer.lr) for spec in specs]
    rates = (common, pytest.approx(10 * common))
    assert tried == [(start, rate) for start in ("normal", "class_token") for rate in rates]


def test_what_is_chosen_does_not_change_the_search_of_options_but_that_of_the_budget():
    other = with_chosen("cls", {"tap": TAP_BEST, "random": {"optimizer": {"lr": 1e-3}}})
    for search, same in (("options", True), ("budget", False)):
        key = TuneKey("cls", search)
        assert (JOB.settings(DESK, key) == JOB.settings(other, key)) == same


def test_the_budget_has_seeds_of_its_own():
    cfg = load_scale("desk", {"tasks.cls.tune.seeds": [0, 2], "tasks.cls.tune.budget_seeds": [1]})
    assert JOB.settings(cfg, TuneKey("cls", "options"))["seeds"] == [0, 2]
    assert JOB.settings(cfg, TuneKey("cls", "budget"))["seeds"] == [1]
    assert JOB.settings(load_scale("desk", {"tasks.cls.tune.seeds": "all"}), TuneKey("cls", "budget"))["seeds"] == [0]


def test_all_seeds_are_those_of_the_task_whatever_they_are():
    cfg = load_scale("desk", {"tasks.cls.tune.seeds": "all", "tasks.cls.seeds": [2, 5]})
    assert searched_seeds(cfg, "cls") == (2, 5)


def test_a_candidate_is_the_run_that_its_values_would_make():
    for each in rounds_of(DESK, "seg", "options")[0]:
        cfg = with_chosen("seg", {each.method: each.values.model_dump()})
        rate = 1.0 if each.method == DENSE else 0.5
        run = job_spec(cfg, Run("desk", "seg", each.method, rate, seed=2))
        assert candidate_spec(DESK, "seg", "options", each, 2).model_copy(update={"variant": "main"}) == run


def test_a_task_that_params_leave_out_is_searched_with_the_values_of_its_candidates():
    left_out = DESK.only(["cls"])
    for each in rounds_of(DESK, "det", "options")[0]:
        wanted = candidate_spec(DESK, "det", "options", each, 0)
        assert candidate_spec(left_out, "det", "options", each, 0) == wanted


def test_a_longer_training_keeps_the_shares_of_its_schedule():
    for task in ("cls", "det"):
        own = DESK.tasks[task].method
        longer = scaled(own, 2.0)
        assert longer.length == 2 * own.length
        assert longer.schedule.warmup / longer.length == pytest.approx(own.schedule.warmup / own.length)
        shares = [[at / train.length for at in train.schedule.milestones] for train in (own, longer)]
        assert shares[0] == pytest.approx(shares[1])
    rounds = rounds_of(DESK, "det", "budget")
    lengths = [{candidate_spec(DESK, "det", "budget", each, 0).train.length for each in some} for some in rounds]
    own = DESK.tasks["det"].method.length
    assert lengths == [{own}, {2 * own}, {4 * own}]
    assert [each.method for each in rounds[0]] == list(searched_methods(DESK, "det"))


def test_advice_is_what_makes_the_settings_have_what_was_best():
    best = dict.fromkeys(searched_methods(DESK, "cls"), 1) | {"tap": 4, "random": 2}
    bare = with_chosen("cls", {})
    found = result_of(bare, "cls", best)
    text = advice(bare, "cls", found)
    assert "other values best for random, tap; to have them, write" in text
    chosen = yaml.safe_load(text[text.index("chosen:\n") : text.index("below cls")])["chosen"]
    assert set(chosen) == {"random", "tap"}
    assert chosen["tap"] == TAP_BEST
    assert math.isclose(chosen["random"]["optimizer"]["lr"], 9e-5)
    assert advice(with_chosen("cls", chosen), "cls", found) == ""
    joint = {"tap_f": {"controller": {"register_std": 0.5}}}
    text = advice(with_chosen("cls", joint), "cls", found)
    kept = yaml.safe_load(text[text.index("chosen:\n") : text.index("below cls")])["chosen"]
    assert kept == chosen | joint  # what no search of one task judges stays
    without_tap = with_chosen("cls", {"random": chosen["random"]})
    assert "best for tap;" in advice(without_tap, "cls", found)


def test_values_go_through_yaml_as_they_are():
    values = {"dense": ChosenConfig(optimizer={"lr": 1e-5}), "tap": ChosenConfig(**TAP_BEST)}
    found = yaml.safe_load("\n".join(yaml_lines(values)))
    assert found == {"chosen": {"dense": {"optimizer": {"lr": 1e-5}}, "tap": TAP_BEST}}
    assert yaml.safe_load("\n".join(yaml_lines({}))) == {"chosen": {}}


def test_a_method_that_the_task_does_not_list_is_not_searched():
    values = {"tasks.cls.tune.methods": ["dense", "random", "tap"], "tasks.cls.methods": ["dense", "tome", "tap"]}
    assert searched_methods(load_scale("desk", values), "cls") == ("dense", "tap")


def test_methods_that_are_trained_for_several_tasks_have_no_search_of_one():
    assert FROZEN
    assert not set(FROZEN) & set(searched_methods(DESK, "cls"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tune.methods": ["dense", "tap_f"]}, "'tap_f' is trained on several tasks together"),
        ({"tune.methods": ["dense", "svit"]}, "tasks.cls.tune.methods: 'svit' is not a method of this task"),
        ({"tune.methods": ["tap"]}, r"tune.methods must include 'dense' \(no pruning\)"),
        ({"tune.seeds": [7]}, "tune.seeds: 7 is not one of the task's seeds"),
        ({"tune.budget_seeds": [1, 8]}, "tune.budget_seeds: 8 is not one of the task's seeds"),
        ({"tune.lr_scales": [1, 3]}, f"lr_scales has 2 candidates, and {OF_REGISTERS} has 4"),
        ({"tune.register_lr_scales": [1, 3]}, f"lr_scales has 4 candidates, and {OF_REGISTERS} has 8"),
        ({"tune.lr_scales": [1, 3, 3, 10]}, "lr_scales must name at least one value, and none twice"),
        ({"tune.lr_scales": [1, 0, 3, 10]}, "must be above 0|greater than 0"),
        ({"tune.length_scales": [1, -2]}, "must be above 0|greater than 0"),
        ({"tune.length_scales": [2, 1]}, "length_scales must be two rising factors or more"),
        ({"tune.length_scales": [1]}, "length_scales must be two rising factors or more"),
    ],
)
def test_settings_that_no_search_can_have_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        load_scale("desk", {f"tasks.cls.{name}": value for name, value in values.items()})


def test_a_search_that_is_not_there_or_none_is_named_with_its_command(tmp_path):
    path = tmp_path / "cls" / "options.json"
    with pytest.raises(UserError, match="there is no search yet; `tap tune cls` makes it"):
        read_search(path)
    path.parent.mkdir()
    for text in ("{", "[]", '{"methods": []}'):
        path.write_text(text)
        with pytest.raises(UserError, match="holds no search; delete it"):
            read_search(path)


def with_chosen(task, chosen):
    settings = DESK.tasks[task].model_copy(
        update={"chosen": {name: ChosenConfig.model_validate(values) for name, values in chosen.items()}}
    )
    return DESK.model_copy(update={"tasks": {**DESK.tasks, task: settings}})


def result_of(cfg, task, best):
    """The part of a result that advice reads."""
    methods = {}
    for each in rounds_of(cfg, task, "options")[0]:
        methods.setdefault(each.method, {"best": best[each.method], "candidates": []})["candidates"].append(
            {"values": each.values.model_dump()}
        )
    return {"methods": methods}
