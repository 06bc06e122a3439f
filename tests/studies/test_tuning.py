"""The search as a job, on the project's classification of toy images: what it trains, keeps, judges by and writes."""

import csv
import json
from multiprocessing import get_context

import pytest
import torch
from safetensors.torch import load_file
from toy_task import SmallClassification, ToyData

from tap.config import load_scale
from tap.config.schema import ChosenConfig
from tap.engine.job import train_run
from tap.engine.loop import NotFinite
from tap.engine.run_weights import load_run
from tap.errors import UserError
from tap.jobs.kinds.tune import JOB, TuneKey
from tap.jobs.staleness import Today
from tap.plan.runs import Run, dense_run, run_of
from tap.plan.specs import job_spec
from tap.plan.starts import start_run
from tap.plan.tuning import Candidate, candidate_spec, rounds_of
from tap.provenance.locks import hold_lock, is_held
from tap.studies import tuning
from tap.studies.tuning import run_search
from tap.studies.tuning_outcome import best_place, first_settled, in_words, kendall_tau
from tap.task_facts import CLS, Metric
from tap.tasks.base import Splits

METHODS = ["dense", "random"]
TOY = {
    "device": "cpu",
    "tasks.cls.pretrain.share": None,  # of other sizes than the other tasks
    "tasks.cls.pretrain.weights": "mae.pth",
    "tasks.seg.pretrain.mix": None,
    "tasks.cls.model.channels": 1,
    "tasks.cls.model.patch_size": 4,
    "tasks.cls.data.mean": [0.3],
    "tasks.cls.data.std": [0.4],
    "tasks.cls.data.num_classes": 3,
    "tasks.cls.data.limit_calibration": None,
    "tasks.cls.methods": METHODS,
    "tasks.cls.model.image_size": 8,
    "tasks.cls.model.width": 12,
    "tasks.cls.model.heads": 2,
    "tasks.cls.method.length": 2,
    "tasks.cls.method.batch_size": 4,
    "tasks.cls.method.augment": {},
    "tasks.cls.eval.batch_size": 8,
    "tasks.cls.tune.lr_scales": [1, 10],
    "tasks.cls.tune.controller_lr_scales": [30],
    "tasks.cls.tune.length_scales": [1, 2],
}


class Unseen(ToyData):
    """Validation images that nobody may look at."""

    def __getitem__(self, item):
        raise AssertionError("a validation image was read")


class CalibrationOnly(SmallClassification):
    """Its validation split cannot be read; `fitted` notes what is trained."""

    calibration, fitted = 6, []

    def datasets(self, spec):
        return Splits(ToyData(), ToyData(self.calibration, train=False), Unseen(9, train=False))

    def loss(self, model, batch, progress):
        if progress == 0.0:
            self.fitted.append(model)
        return super().loss(model, batch, progress)


@pytest.fixture
def cfg(tmp_path, monkeypatch):
    """Settings of a toy scale whose start is trained, in a folder of its own."""
    found = load_scale("smoke", TOY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CalibrationOnly, "fitted", [])
    monkeypatch.setattr(tuning, "get_task", lambda spec: CalibrationOnly())
    start = job_spec(found, start_run(dense_run(found, "cls", 0))).model_copy(update={"start_from": "scratch"})
    train_run(start, SmallClassification())
    tensors = load_file(run_of(start).folder / "model.safetensors")
    trunk = {name[len("encoder.vit.") :]: value for name, value in tensors.items() if name.startswith("encoder.vit.")}
    torch.save({"model": trunk}, "mae.pth")
    return found


def search(cfg, which="options"):
    return run_search(cfg, "cls", which, codes=dict.fromkeys(METHODS, "code"))


def with_methods(cfg, *methods):
    settings = cfg.tasks["cls"].model_copy(update={"methods": methods})
    return cfg.model_copy(update={"tasks": cfg.tasks | {"cls": settings}})


def test_processes_that_end_at_once_write_one_after_the_other(cfg, monkeypatch):
    """Each removes the temporary files of killed writers, which another's are not."""
    first, held = candidate_spec(cfg, "cls", "options", rounds_of(cfg, "cls", "options")[0][0], 0), []
    lock = run_of(first).scratch / "result.lock"
    monkeypatch.setattr(tuning, "record_job", lambda *_, **__: held.append(is_held(lock)))
    search(cfg)
    assert (held, is_held(lock)) == ([True], False)


def test_every_method_is_searched_alike_on_the_calibration_split_alone(cfg, capsys):
    cfg, methods = with_methods(cfg, "dense", "dynamicvit", "tap"), ["dense", "dynamicvit", "tap"]
    path = run_search(cfg, "cls", "options", JOB.stamp(cfg, TuneKey("cls", "options")))
    found = json.loads(path.read_text())
    assert list(found["methods"]) == methods
    assert {name: len(each["candidates"]) for name, each in found["methods"].items()} == dict.fromkeys(methods, 2)
    assert len(CalibrationOnly.fitted) == 6
    assert found["calibration_images"] == 6
    assert found["metric"] == "top1"
    for each in found["methods"].values():
        means = [candidate["mean"] for candidate in each["candidates"]]
        assert each["best"] == 1 + means.index(max(means))
    with path.with_suffix(".csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 6
    assert [row["method"] for row in rows if row["best"]] == methods
    assert rows[-1]["values"] == "register_start class_token, controller_lr_scale 30"
    record = json.loads(path.with_suffix(".record.json").read_text())
    assert {"outside/mae.pth", "mae.pth"} & set(record["inputs"])
    assert "results/smoke/runs/cls/dense/r1.00/start/s0/model.safetensors" in record["inputs"]
    assert Today(cfg).staleness(record) is None
    changed = cfg.tasks["cls"].model_copy(update={"chosen": {"tap": ChosenConfig(optimizer={"lr": 1.0})}})
    assert Today(cfg.model_copy(update={"tasks": cfg.tasks | {"cls": changed}})).staleness(record) is None
    assert not list((path.parents[2] / "runs" / "cls").glob("*/*/tune*"))  # candidates are no runs
    out = capsys.readouterr()
    assert "6 of 6: tap, register_start class_token" in out.err
    assert "best of each method on the calibration split" in out.out


@pytest.mark.slow
def test_a_candidate_has_the_score_of_the_run_that_its_values_make(cfg):
    cfg = with_methods(cfg, "dense", "tap")
    found = json.loads(search(cfg).read_text())["methods"]
    for each in rounds_of(cfg, "cls", "options")[0]:
        if each.method == "dense":
            continue
        settings = cfg.tasks["cls"].model_copy(update={"chosen": {each.method: each.values}})
        own = cfg.model_copy(update={"tasks": cfg.tasks | {"cls": settings}})
        spec, task = job_spec(own, Run("smoke", "cls", each.method, 0.5)), SmallClassification()
        train_run(spec, task)
        model = task.build_model(spec)
        load_run(spec, model)
        score = task.evaluate(model, spec, "calibration", torch.device("cpu")).metrics["top1"]
        assert found[each.method]["candidates"][each.number - 1]["scores"] == {"0": score}


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [1, 3])
def test_a_killed_search_goes_on_with_what_it_has_and_ends_with_the_same_bytes(cfg, monkeypatch, dies_at):
    path = search(cfg)
    whole = path.read_bytes(), path.with_suffix(".csv").read_bytes()
    for folder in cfg_scratch():
        for file in folder.iterdir():
            file.unlink()
    CalibrationOnly.fitted.clear()
    judge = tuning.Trials._judge

    def dies(self, *arguments):
        if len(CalibrationOnly.fitted) == dies_at:
            raise KeyboardInterrupt
        judge(self, *arguments)

    monkeypatch.setattr(tuning.Trials, "_judge", dies)
    with pytest.raises(KeyboardInterrupt):
        search(cfg)
    monkeypatch.setattr(tuning.Trials, "_judge", judge)
    search(cfg)
    assert len(CalibrationOnly.fitted) == 4  # none was trained twice
    assert (path.read_bytes(), path.with_suffix(".csv").read_bytes()) == whole
    search(cfg)
    assert len(CalibrationOnly.fitted) == 4


@pytest.mark.slow
def test_a_damaged_score_or_other_code_is_judged_anew(cfg):
    search(cfg)
    whole = (path := cfg_scratch()[0] / "score.json").read_text()
    path.write_text("{")
    search(cfg)
    assert len(CalibrationOnly.fitted) == 5
    assert path.read_text() == whole
    run_search(cfg, "cls", "options", codes=dict.fromkeys(METHODS, "code") | {"random": "other"})
    assert len(CalibrationOnly.fitted) == 7


@pytest.mark.slow
def test_a_candidate_in_other_hands_is_left_to_the_end(cfg, capsys):
    spec = candidate_spec(cfg, "cls", "options", Candidate("random", 1, ChosenConfig()), 0)
    ready, release = get_context("fork").Event(), get_context("fork").Event()

    def hold():
        hold_lock(run_of(spec).scratch / "lock")
        ready.set()
        release.wait(20)

    other = get_context("fork").Process(target=hold)
    other.start()
    assert ready.wait(20)
    judge, done = tuning.Trials._judge, []

    def noting(self, own, *arguments):
        done.append((own.method, own.variant))
        if len(done) == 3:
            release.set()  # the other one has died; only now somebody waits for it
        judge(self, own, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning.Trials, "_judge", noting)
        search(cfg)
    other.join()
    assert done[-1] == ("random", "tune-options-1")
    assert len(done) == 4


@pytest.mark.slow
def test_what_diverges_has_no_score_and_is_not_chosen(cfg, monkeypatch, capsys):
    fit = tuning.fit

    def fails(spec, *arguments):
        if spec.method == "random" and spec.variant in bad:
            raise NotFinite("loss is nan")
        return fit(spec, *arguments)

    monkeypatch.setattr(tuning, "fit", fails)
    bad = ("tune-options-1",)
    found = json.loads(search(cfg).read_text())["methods"]["random"]
    assert found["best"] == 2
    assert found["candidates"][0]["mean"] is None
    assert "random, lr 0.001, 2 steps, seed 0: diverged" in capsys.readouterr().err
    for folder in cfg_scratch():
        (folder / "score.json").unlink()
    bad = ("tune-options-1", "tune-options-2")
    with pytest.raises(UserError, match=r"every candidate of 'random' diverged; lower tune\.lr_scales"):
        search(cfg)


def test_without_calibration_images_nothing_is_trained(cfg, monkeypatch):
    monkeypatch.setattr(CalibrationOnly, "calibration", 0)
    with pytest.raises(UserError, match=r"tasks\.cls\.data\.calibration: the calibration split has no image"):
        search(cfg)
    assert CalibrationOnly.fitted == []


def test_an_unknown_task_is_named():
    with pytest.raises(UserError, match="task: 'depth' is not among the tasks"):
        run_search(load_scale("smoke"), "depth", "options")


@pytest.mark.slow
def test_the_budget_is_the_length_from_which_the_order_stays(cfg):
    found = json.loads(search(cfg, "budget").read_text())
    assert found["lengths"] == [2.0, 4.0]
    assert len(CalibrationOnly.fitted) == 2 * len(METHODS)
    scores = [[each["candidates"][place]["mean"] for each in found["methods"].values()] for place in (0, 1)]
    assert found["agreement_with_next"] == [kendall_tau(*scores)]
    assert "Trainings of 2, 4 steps" in in_words(cfg, found)


def test_of_equal_candidates_the_first_counts_whichever_way_is_better():
    three = [Candidate("random", number, ChosenConfig()) for number in (1, 2, 3)]
    lower = Metric("rmse", "RMSE", "px", higher_is_better=False)
    for values, higher, smaller in (((1.0, 2.0, 2.0), 1, 0), ((3.0, 3.0, 3.0), 0, 0), ((None, 1.0, 2.0), 2, 1)):
        scores = {("random", number, 0): value for number, value in enumerate(values, start=1)}
        assert best_place(three, (0,), scores, CLS.score) == higher
        assert best_place(three, (0,), scores, lower) == smaller
    scores = {("random", number, seed): float(number == 2 or seed) for number in (1, 2, 3) for seed in (0, 1)}
    assert best_place(three, (0, 1), scores, CLS.score) == 1


def test_kendalls_tau_is_its_definition_and_the_rule_asks_all_longer_lengths():
    def slow(one, other):
        pairs = [(i, j) for i in range(len(one)) for j in range(i)]
        signs = [
            ((one[i] > one[j]) - (one[i] < one[j])) * ((other[i] > other[j]) - (other[i] < other[j])) for i, j in pairs
        ]
        untied = [sum(values[i] != values[j] for i, j in pairs) for values in (one, other)]
        return sum(signs) / (untied[0] * untied[1]) ** 0.5

    one, other = [3.0, 1.0, 2.0, 2.0, 5.0], [2.0, 1.0, 4.0, 3.0, 5.0]
    assert kendall_tau(one, other) == pytest.approx(slow(one, other))
    assert kendall_tau([1.0, 1.0], [1.0, 2.0]) is None
    assert first_settled([0.5, 0.95, 1.0], 0.9) == 1
    assert first_settled([0.95, 0.5], 0.9) is None
    assert first_settled([None, 1.0], 0.9) == 1
    assert first_settled([1.0], 0.9) == 0


def cfg_scratch():
    """The scratch folders of candidates."""
    from pathlib import Path

    return sorted(Path(".tap/resume/smoke/cls").glob("*/*/tune-options-*/s0"))
