"""A joint training as a job: frozen means frozen, one run per task, the same bits after a kill, refusals in words."""

import json
from pathlib import Path

import pytest
import torch
from joint_views import TASKS, View
from safetensors.torch import load_file, save_file
from test_joint_training import Killed, TinyTask
from toy_task import toy_spec

from tap.config.options import MethodOptions
from tap.encoder.low_rank import is_low_rank
from tap.engine import joint_job
from tap.engine.joint import task_counts
from tap.engine.joint_job import train_joint_run
from tap.engine.run_weights import load_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.recertify import driver
from tap.recertify.compare import compare
from tap.seeds import derive_seed

BASE = Path("base.safetensors")
SAMPLER = derive_seed(0, "joint sampler")
OWN = {"rank": 2, "alpha": 2.0}


class ViewTask(TinyTask):
    """A tiny task that builds its view as pipelines do: equal seeds, equal weights."""

    def build_model(self, spec):
        torch.manual_seed(spec.seed)
        return View(self.name)


def specs(start_from="pretrained", rate=0.5, variant="main", tasks=tuple(TASKS), length=8, **options):
    shared = {"unit": "steps", "length": length, "log_steps": 1, "batch_size": 2, "optimizer": {"lr": 3e-2}}
    spec = toy_spec("tap_f", weights=str(BASE), start_from=start_from, variant=variant, **shared)
    given = MethodOptions(tap_f=OWN | options)
    return {task: spec.model_copy(update={"task": task, "rate": rate, "options": given}) for task in tasks}


def published(made):
    return {task: (run_of(spec).folder / "model.safetensors").read_bytes() for task, spec in made.items()}


@pytest.fixture(autouse=True)
def tasks(tmp_path, monkeypatch):
    """A project with a pre-trained base, and the tasks by name."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(7)
    vit = View("cls").encoder.vit.state_dict()
    save_file({f"encoder.vit.{name}": value for name, value in vit.items() if not is_low_rank(name)}, BASE)
    known = {name: ViewTask(name) for name in TASKS}
    monkeypatch.setattr(joint_job, "get_task", lambda spec: known[spec.task])
    return known


def test_a_run_of_every_task_is_published_and_the_base_keeps_its_bytes():
    before, made = BASE.read_bytes(), specs()
    train_joint_run(made)
    assert BASE.read_bytes() == before
    whole = {name.removeprefix("encoder.vit."): value for name, value in load_file(BASE).items()}
    for task, spec in made.items():
        record = json.loads((run_of(spec).folder / "run.json").read_text())
        assert record["task_counts"] == task_counts(tuple(TASKS), SAMPLER, 8)
        assert (record["sampler_seed"], record["optimization_seed"]) == (SAMPLER, 0)
        assert "base.safetensors" in " ".join(record["inputs"])
        header = (run_of(spec).folder / "log.csv").read_text().splitlines()[0]
        assert {f"{task}.loss", f"{task}.grad_norm", f"{task}.kept"} <= set(header.split(","))
        view = ViewTask(task).build_model(spec).eval()
        load_run(spec, view)
        state = view.encoder.vit.state_dict()
        same = [name for name, value in whole.items() if name in state and state[name].shape == value.shape]
        assert len(same) > 40
        assert all(torch.equal(state[name], whole[name]) for name in same)
        moved = {name for name in load_file(run_of(spec).folder / "model.safetensors") if is_low_rank(name)}
        assert moved
        assert not moved & {f"encoder.vit.{name}" for name in same}
        assert view(images_of(view)).isfinite().all()


def images_of(view):
    embed = view.encoder.vit.patch_embed
    size = [grid * patch for grid, patch in zip(embed.grid_size, embed.patch_size, strict=True)]
    return torch.randn(2, 3, *size)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_training_ends_with_the_bits_of_an_unbroken_one(dies, tasks, tmp_path, monkeypatch):
    made = specs()
    train_joint_run(made)
    unbroken = published(made)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / BASE).write_bytes(BASE.read_bytes())
    monkeypatch.chdir(tmp_path / "again")
    tasks["seg"] = ViewTask("seg", dies=dies)
    with pytest.raises(Killed):
        train_joint_run(made)
    assert not list(Path("results").rglob("*.safetensors"))
    tasks["seg"] = ViewTask("seg")
    train_joint_run(made)
    assert published(made) == unbroken


def test_variants_go_on_from_the_start_of_their_adapters(capsys):
    start = specs(rate=1.0, variant="start")
    train_joint_run(start)
    later = specs(start_from="joint", length=3)
    train_joint_run(later)
    run = run_of(later["cls"])
    assert (
        f"{run_of(start['cls']).folder}/model.safetensors"
        in json.loads((run.folder / "run.json").read_text())["inputs"]
    )
    head = "head.weight"
    before, after = (load_file(run_of(made["cls"]).folder / "model.safetensors")[head] for made in (start, later))
    fresh = ViewTask("cls").build_model(later["cls"]).state_dict()[head]
    assert (before - after).abs().max() < (fresh - after).abs().max()
    train_joint_run(later)
    assert "nothing to do" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"shared-adapter-start/s0 is not trained yet"):
        train_joint_run(specs(start_from="joint", adapters_of="shared"))


def test_what_is_shared_is_the_same_in_all_files():
    made = specs(register_of="shared", adapters_of="shared")
    train_joint_run(made)
    files = [load_file(run_of(spec).folder / "model.safetensors") for spec in made.values()]
    shared = [name for name in files[0] if is_low_rank(name) or ".controller.allocation." in name]
    assert len(shared) > 8
    assert all(torch.equal(file[name], files[0][name]) for name in shared for file in files)


def test_a_loss_that_is_no_number_overwrites_nothing(tasks):
    made = specs()
    train_joint_run(made)
    before = published(made)
    tasks["cls"] = ViewTask("cls", bad_from=0.3)
    with pytest.raises(UserError, match="loss is nan of task 'cls' at step"):
        train_joint_run(specs(length=9))
    assert published(made) == before


def test_refusals():
    with pytest.raises(UserError, match="a joint training needs at least two, got cls"):
        train_joint_run(specs(tasks=("cls",)))
    made = specs()
    train_joint_run(made)
    save_file({name: value + 1 for name, value in load_file(BASE).items()}, BASE)
    with pytest.raises(UserError, match=r"its base backbone is .*, but the model's is"):
        load_run(made["cls"], ViewTask("cls").build_model(made["cls"]))
    BASE.unlink()
    with pytest.raises(UserError, match=r"base\.safetensors: there is no such file, but tasks\.cls\.pretrain"):
        load_run(made["cls"], ViewTask("cls").build_model(made["cls"]))


@pytest.mark.slow
def test_a_replay_is_equal_to_itself_and_finds_another_order_of_the_tasks(monkeypatch):
    made = specs()
    request = {
        "specs": {},
        "folders": {},
        "sampler_seed": joint_job.derive_seed(next(iter(made.values())).seed, "joint sampler"),
    }
    for task, spec in made.items():
        request["specs"][task] = spec.model_dump(mode="json")
        request["folders"][task] = run_of(spec).folder.as_posix()
    monkeypatch.setattr(joint_job, "ResumeStates", joint_job.ResumeStates)  # the driver takes its place

    def replay():
        return {"trace": driver.replay_joint_training(request).entries}

    before = replay()
    places = list(dict.fromkeys(place for place, _, _ in before["trace"]))
    assert places[-len(made) :] == [f"end of {task}" for task in made]
    assert [place for place in places if place.startswith("step ")] == [f"step {step}" for step in (0, 1, 2, 7)]
    seen = {name.split()[2] for _, name, _ in before["trace"] if name.startswith("gradient of ")}
    assert seen == set(made), "gradients of every task"
    assert compare(before, replay()).equal
    derive = joint_job.derive_seed
    monkeypatch.setattr(joint_job, "derive_seed", lambda *parts: derive(*parts) + 1)
    assert compare(before, replay()).difference.startswith("step ")
