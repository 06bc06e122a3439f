import json

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.plan.runs import pretraining_run, run_of, runs_of_table
from tap.plan.specs import job_json, job_spec, parse_job
from tap.plan.starts import base_run, source_run, start_run
from tap.runs import Run

DESK = load_scale("desk")


def changed(path, value):
    return load_scale("desk", {path: value})


def test_the_runs_of_a_table():
    cfg = load_scale(
        "desk",
        {
            "keep_rates": [0.7, 0.3],
            "main_rate": 0.5,
            "tasks.cls.seeds": [3, 4],
            "tasks.cls.methods": ["dense", "random", "tap"],
        },
    )
    expected = [("dense", 1.0), ("random", 0.5), ("tap", 0.5), ("tap", 0.3), ("tap", 0.7)]
    assert runs_of_table(cfg, "cls") == [
        Run("desk", "cls", method, rate, "main", seed) for method, rate in expected for seed in (3, 4)
    ]
    fewer = cfg.model_copy(update={"tasks": {name: cfg.tasks[name] for name in ("cls", "seg")}})
    with pytest.raises(UserError, match="task: 'det' is not among the tasks of scale 'desk': cls, seg"):
        runs_of_table(fewer, "det")


def test_each_kind_of_run_gets_its_schedule_and_its_start():
    task = DESK.tasks["cls"].model_copy(update={"chosen": {}})
    desk = DESK.model_copy(update={"tasks": DESK.tasks | {"cls": task}})
    spec = {method: job_spec(desk, Run("desk", "cls", method)) for method in ("dense",)}
    spec["mae"] = job_spec(desk, Run("desk", "seg", "mae"))
    spec["start"] = job_spec(desk, start_run(Run("desk", "cls", "tap", 0.5)))
    spec |= {method: job_spec(desk, Run("desk", "cls", method, 0.5)) for method in ("random", "tap")}
    assert (spec["mae"].train, spec["mae"].start_from) == (desk.tasks["seg"].pretrain.train, "scratch")
    assert (spec["start"].train, spec["start"].start_from) == (task.dense, "pretrained")
    assert (spec["tap"].train, spec["tap"].start_from) == (task.method, "dense")
    for method in ("random", "dense"):
        assert (spec[method].train, spec[method].start_from) == (spec["tap"].train, "dense"), "one budget for all"
    paper = load_scale("paper")
    for method, rate, train in (("tap", 0.5, paper.tasks["cls"].method), ("dense", 1.0, paper.tasks["cls"].dense)):
        at_paper_scale = job_spec(paper, Run("paper", "cls", method, rate))
        assert (at_paper_scale.train, at_paper_scale.start_from) == (train, "pretrained")
    with pytest.raises(UserError, match=r"variant: cls/dense/r1\.00/start/s0 cannot be made; known here are main"):
        job_spec(paper, Run("paper", "cls", "dense", variant="start"))
    assert {pretraining_run(desk, task) for task in desk.tasks} == {Run("desk", "seg", "mae")}  # one backbone for all
    assert (spec["mae"].mixed or {}).keys() == {"cls"}
    assert spec["dense"].mixed is None
    assert run_of(spec["tap"]) == Run("desk", "cls", "tap", 0.5)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Run("desk", "cls", "evitt", 0.5), r"method: 'evitt' is not a method of cls; known: mae, dense, random"),
        (Run("desk", "seg", "evit", 0.5), r"method: 'evit' is not a method of seg"),
        (Run("desk", "cls", "dense", 0.5), r"keep rate: 'dense' removes nothing"),
        (Run("smoke", "cls", "tap", 0.5), r"belongs to scale 'smoke', the settings are those of 'desk'"),
        (Run("desk", "det", "tome", 0.5), r"method: 'tome' is not a method of det"),
        (
            Run("desk", "det", "mae"),
            r"tasks\.det\.pretrain\.share: the backbone is that of 'seg', whose run is seg/mae/",
        ),
    ],
)
def test_a_run_that_the_settings_do_not_know_is_refused(run, message):
    with pytest.raises(UserError, match=message):
        job_spec(DESK, run)


def test_there_is_no_pretraining_to_run_where_weights_are_given():
    with pytest.raises(UserError, match=r"tasks\.cls\.pretrain: weights are given"):
        job_spec(load_scale("paper"), Run("paper", "cls", "mae"))


@pytest.mark.parametrize("job", ["train", "evaluate"])
@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_json_and_back_is_the_same_job(scale, job):
    cfg = load_scale(scale)
    for task in cfg.tasks:
        for run in runs_of_table(cfg, task):
            spec = job_spec(cfg, run)
            assert parse_job(job_json(spec, job), job, cfg, run) == spec


TAP_RUN = Run("desk", "cls", "tap", 0.5)


@pytest.mark.parametrize(
    ("path", "value", "train_tap", "train_start", "evaluate_tap"),
    [
        ("tasks.cls.method.length", 999, True, False, False),
        ("tasks.cls.dense.length", 999, False, True, False),
        ("tasks.cls.eval.batch_size", 999, False, False, True),
        ("tasks.cls.profile.iterations", 999, False, False, False),
        ("tasks.cls.model.drop_path", 0.1, True, True, True),
        ("controller.tau_end", 0.2, True, False, True),
        ("tasks.seg.method.length", 999, False, False, False),
        ("tasks.cls.seeds", [0, 1, 2, 3], False, False, False),
        ("keep_rates", [0.5, 0.9], False, False, False),
        ("device", "cpu", False, False, False),
        ("processes", 2, False, False, False),
        ("tasks.cls.data.workers", 3, False, False, False),
        ("tasks.cls.method.checkpoint_seconds", 3, False, False, False),
        ("tasks.cls.method.log_steps", 3, False, False, False),
    ],
)
def test_an_edit_changes_the_parameters_of_exactly_the_jobs_that_read_it(
    path, value, train_tap, train_start, evaluate_tap
):
    cfg = changed(path, value)
    assert cfg != DESK

    def differs(run, job):
        return job_json(job_spec(cfg, run), job) != job_json(job_spec(DESK, run), job)

    assert differs(TAP_RUN, "train") == train_tap
    assert differs(start_run(TAP_RUN), "train") == train_start
    assert differs(TAP_RUN, "evaluate") == evaluate_tap


def test_no_pruning_reads_the_common_budget_and_nothing_of_pruning():
    run = Run("desk", "cls", "dense")
    before = job_json(job_spec(DESK, run), "train")
    assert job_json(job_spec(changed("controller.tau_end", 0.2), run), "train") == before
    assert job_json(job_spec(changed("tasks.cls.method.length", 999), run), "train") != before


def test_settings_that_only_say_how_to_run_come_from_the_settings_in_use():
    text = job_json(job_spec(DESK, TAP_RUN), "train")
    now = load_scale("desk", {"device": "cpu", "tasks.cls.data.workers": 3, "tasks.cls.method.length": 27})
    spec = parse_job(text, "train", now, TAP_RUN)
    assert (spec.device, spec.data.workers) == ("cpu", 3)
    assert spec.train.length == DESK.tasks["cls"].method.length


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree: tree.update(rate=0), r"--spec: rate: must be greater than 0, got 0"),
        (lambda tree: tree["train"].update(lenth=3), r"--spec: train\.lenth: unknown key; did you mean 'length'\?"),
        (lambda tree: tree.pop("model"), r"--spec: model: is missing"),
        (lambda tree: tree.update(seed=7), r"--spec: holds the settings of cls/tap/r0\.50/main/s7, not of .*/s0"),
    ],
)
def test_a_wrong_spec_is_refused(edit, message):
    tree = json.loads(job_json(job_spec(DESK, TAP_RUN), "train"))
    edit(tree)
    with pytest.raises(UserError, match=message):
        parse_job(json.dumps(tree), "train", DESK, TAP_RUN)


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_spec_that_is_no_json_object_is_refused(text):
    with pytest.raises(UserError, match=r"--spec: "):
        parse_job(text, "train", DESK, TAP_RUN)


def test_a_dense_task_has_a_random_encoder_of_each_seed_beside_it():
    floor = [run for run in runs_of_table(DESK, "seg") if run.variant == "random-encoder"]
    seeds = DESK.tasks["seg"].seeds
    assert len(seeds) == 3
    assert floor == [Run("desk", "seg", "dense", variant="random-encoder", seed=seed) for seed in seeds]
    spec, start = job_spec(DESK, floor[0]), job_spec(DESK, start_run(floor[0]))
    assert (start.train, start.start_from) == (DESK.tasks["seg"].dense, "scratch")
    assert (spec.train, spec.start_from) == (job_spec(DESK, Run("desk", "seg", "dense")).train, "dense")
    for run in (
        Run("desk", "seg", "tap", 0.5, "random-encoder"),
        Run("desk", "cls", "dense", variant="random-encoder"),
        Run("desk", "cls", "dense", variant="other"),
    ):
        with pytest.raises(UserError, match="variant: "):
            job_spec(DESK, run)


def test_what_is_chosen_for_a_method_is_its_own_and_no_start_has_it():
    values = {"controller": {"register_start": "class_token"}, "optimizer": {"controller_lr_scale": 30}}
    cfg = changed("tasks.cls.chosen", {"tap": values, "dense": {"optimizer": {"lr": 1e-4}}})
    tap = job_spec(cfg, Run("desk", "cls", "tap", 0.5))
    assert (tap.controller.register_start, tap.train.optimizer.controller_lr_scale) == ("class_token", 30)
    for method in ("random", "static"):
        assert job_spec(cfg, Run("desk", "cls", method, 0.5)) == job_spec(DESK, Run("desk", "cls", method, 0.5))
    assert job_spec(cfg, Run("desk", "cls", "dense")).train.optimizer.lr == 1e-4
    start = start_run(Run("desk", "cls", "tap", 0.5))
    assert job_spec(cfg, start) == job_spec(DESK, start)


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(UserError, match=r"tasks\.cls\.chosen\.tap"):
        changed("tasks.cls.chosen", {"tap": {"length": 3}})
    with pytest.raises(UserError, match=r"chosen.tap_f.optimizer: its training is that of several tasks"):
        changed("tasks.cls.chosen", {"tap_f": {"optimizer": {"lr": 1e-3}}})
    with pytest.raises(UserError, match=r"tasks\.cls\.chosen: 'svit' is not a method of this task"):
        changed("tasks.cls.chosen", {"svit": {"optimizer": {"lr": 1.0}}})
    wrong = changed("tasks.cls.chosen", {"tap": {"controller": {"register_start": "zero"}}})
    with pytest.raises(UserError, match=r"tasks\.cls\.chosen\.tap"):
        job_spec(wrong, Run("desk", "cls", "tap", 0.5))


def test_a_start_may_begin_with_the_backbone_of_another_tasks_start():
    """Of the same seed; its floor has a random encoder all the same, and the base that tasks share is the MAE's."""
    cfg = changed("tasks.det.pretrain", {"share": "seg", "trained_on": "cls"})

    def source(method, rate=1.0, variant="main"):
        return source_run(job_spec(cfg, Run("desk", "det", method, rate, variant, seed=1)))

    assert source("dense", variant="start") == Run("desk", "cls", "dense", 1.0, "start", 1)
    assert source("tap", 0.5) == source("dense") == Run("desk", "det", "dense", 1.0, "start", 1)
    assert source("dense", variant="random-encoder-start") is None
    assert base_run(job_spec(cfg, Run("desk", "det", "tap_f", 0.5))) == Run("desk", "seg", "mae")
    plain = source_run(
        job_spec(changed("tasks.det.pretrain", {"share": "seg"}), start_run(Run("desk", "det", "tap", 0.5)))
    )
    assert plain == Run("desk", "seg", "mae")
