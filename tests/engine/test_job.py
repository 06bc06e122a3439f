"""Training jobs as the workflow runs them: what they publish, what they start from, and what they refuse."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from forked_job import forked_job
from safetensors.torch import load_file
from toy_task import ToyTask, toy_spec

from tap.engine.job import train_run
from tap.errors import UserError
from tap.plan.runs import run_of

PUBLISHED = ["log.csv", "model.safetensors", "run.json"]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def published(spec):
    return {path.name: path.read_bytes() for path in sorted(run_of(spec).folder.iterdir())}


def bits(spec):
    """Weights and log, which two runs of the same settings share bit for bit (the record tells times)."""
    files = published(spec)
    assert list(files) == PUBLISHED
    return hashlib.sha256(files["model.safetensors"] + files["log.csv"]).hexdigest()


def test_a_job_publishes_weights_log_and_record_and_leaves_no_state(capsys):
    spec = toy_spec()
    train_run(spec, ToyTask())
    files = published(spec)
    assert list(files) == PUBLISHED
    record = json.loads(files["run.json"])
    for name in ("model.safetensors", "log.csv"):
        assert record["outputs"][f"{run_of(spec).folder}/{name}"]["sha256"] == hashlib.sha256(files[name]).hexdigest()
    assert record["steps"] == 12
    assert record["processes"] == 1
    assert files["log.csv"].decode().splitlines()[0] == "step,epoch,lr,loss,grad_norm,progress"
    assert not list(run_of(spec).scratch.glob("*.state"))
    assert list((run_of(spec).scratch / "tensorboard").iterdir())
    assert "step 12/12" in capsys.readouterr().err


def test_the_same_command_again_does_nothing_and_says_so(capsys):
    spec = toy_spec()
    train_run(spec, ToyTask())
    before = published(spec)
    train_run(spec, ToyTask())
    assert published(spec) == before
    assert "nothing to do" in capsys.readouterr().err


def test_a_deleted_or_edited_result_is_made_again():
    spec = toy_spec()
    train_run(spec, ToyTask())
    before = bits(spec)
    for damage in (Path.unlink, lambda path: path.write_bytes(b"edited")):
        damage(run_of(spec).folder / "model.safetensors")
        train_run(spec, ToyTask())
        assert bits(spec) == before


def test_other_settings_train_anew_and_replace_the_result_only_at_the_end():
    spec = toy_spec()
    train_run(spec, ToyTask())
    before = published(spec)
    other = toy_spec(length=14)
    with pytest.raises(UserError, match="step 10 of 14"):
        train_run(other, ToyTask(bad_from=10 / 13))
    assert published(spec) == before
    train_run(other, ToyTask())
    assert published(other)["model.safetensors"] != before["model.safetensors"]


def test_a_loss_that_is_not_a_number_publishes_nothing(project):
    with pytest.raises(UserError, match="loss is nan at step 3"):
        train_run(toy_spec(), ToyTask(bad_from=3 / 11))
    assert not list(run_of(toy_spec()).folder.iterdir())


@pytest.mark.parametrize("place", ["results", ".tap"])
def test_a_place_that_cannot_be_written_is_refused_before_any_step(project, place):
    (project / place).write_text("in the way")

    class Untouched(ToyTask):
        def build_model(self, spec):
            raise AssertionError("work began")

    with pytest.raises(UserError, match=rf"{place}.*cannot be written"):
        train_run(toy_spec(), Untouched())


def test_a_method_starts_from_the_first_training_of_its_seed():
    dense, method = toy_spec(seed=3, variant="start"), toy_spec("tap", seed=3, start_from="dense", length=1, warmup=0)
    with pytest.raises(UserError, match=r"cls/dense/r1\.00/start/s3/model\.safetensors: run .* is not trained yet"):
        train_run(method, ToyTask())
    train_run(dense, ToyTask())
    train_run(method, ToyTask())
    start, end = (load_file(run_of(spec).folder / "model.safetensors") for spec in (dense, method))
    # one step at 1e-2: near the start, and far from the initial weights
    assert torch.allclose(start["head.1.weight"], end["head.1.weight"], atol=2e-2)
    assert "encoder.reducer.weight" in end
    inputs = json.loads(published(method)["run.json"])["inputs"]
    assert set(inputs) == {f"{run_of(dense).folder}/{name}" for name in ("model.safetensors", "run.json")}


def test_an_edited_or_cut_dense_checkpoint_is_refused():
    dense, method = toy_spec(variant="start"), toy_spec("tap", start_from="dense")
    train_run(dense, ToyTask())
    path = run_of(dense).folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.safetensors: differs from what .*run\.json says"):
        train_run(method, ToyTask())


def test_a_dense_checkpoint_of_another_width_is_refused():
    train_run(toy_spec(width=8, variant="start"), ToyTask())
    with pytest.raises(UserError, match=r"is \(1, 1, 8\) in the file and \(1, 1, 12\) in the model"):
        train_run(toy_spec("tap", start_from="dense"), ToyTask())


def test_dense_starts_from_the_pretraining_or_from_a_file_with_its_hash(project):
    dense = toy_spec(start_from="pretrained", length=1, warmup=0)
    with pytest.raises(UserError, match=r"cls/mae/r1\.00/main/s0"):
        train_run(dense, ToyTask())
    train_run(toy_spec("mae"), ToyTask())
    train_run(dense, ToyTask())
    start = load_file(run_of(toy_spec("mae")).folder / "model.safetensors")
    end = load_file(run_of(dense).folder / "model.safetensors")
    assert torch.allclose(start["encoder.vit.pos_embed"], end["encoder.vit.pos_embed"], atol=2e-2)
    # the same weights in the naming of a public file
    trunk = {name[len("encoder.vit.") :]: value for name, value in start.items() if name.startswith("encoder.vit.")}
    torch.save({"model": trunk}, project / "mae.pth")
    digest = hashlib.sha256((project / "mae.pth").read_bytes()).hexdigest()
    before = bits(dense)
    train_run(toy_spec(start_from="pretrained", length=1, warmup=0, weights="mae.pth", sha256=digest), ToyTask())
    assert bits(dense) == before
    for weights, sha256, match in (("none.pth", None, "there is no such file"), ("mae.pth", "0" * 64, "is expected")):
        with pytest.raises(UserError, match=match):
            train_run(toy_spec(start_from="pretrained", weights=weights, sha256=sha256), ToyTask())


def states(spec):
    return list(run_of(spec).scratch.glob("[!.]*.state"))


def clear(spec):
    """Removes the results and the note that they are finished."""
    for path in [*run_of(spec).folder.iterdir(), *run_of(spec).scratch.glob("finished")]:
        path.unlink()


@pytest.mark.slow
def test_killed_at_any_moment_ends_with_the_same_bits(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    context = get_context("forkserver")
    context.set_forkserver_preload(["forked_job"])

    def started():
        process = context.Process(target=forked_job)
        process.start()
        return process

    spec, rng = toy_spec(), random.Random(0)
    for _ in range(2):  # the first starts the server
        begun = time.monotonic()
        started().join()
        usual = time.monotonic() - begun
        straight = bits(spec)
        clear(spec)
    resumed = 0
    for _ in range(10):
        process = started()
        process.join(rng.uniform(0.2, 0.8) * usual)
        process.kill()
        process.join()
        resumed += bool(states(spec))
        if run_of(spec).folder.exists() and (run_of(spec).folder / "run.json").exists():
            assert bits(spec) == straight
            clear(spec)
    assert resumed >= 3  # most kills came in the middle
    train_run(spec, ToyTask())
    assert bits(spec) == straight


@pytest.mark.slow
def test_a_real_process_that_was_killed_goes_on_by_the_same_command(project):
    spec = toy_spec()
    train_run(spec, ToyTask())
    straight = bits(spec)
    clear(spec)
    command = [sys.executable, str(Path(__file__).parent / "job_process.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for count in (1, 2):
        process = subprocess.Popen([*command, "0.2"], env=environment, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while len(states(spec)) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert states(spec)
        assert not list(run_of(spec).folder.iterdir())
    done = subprocess.run([*command, "0"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "goes on at step" in done.stderr
    assert bits(spec) == straight


def stopped_half_way(spec):
    with pytest.raises(UserError, match="loss is nan at step 8"):
        train_run(spec, ToyTask(bad_from=0.7))
    assert states(spec)


@pytest.mark.parametrize("change", ["manifest", "record", "none"])
def test_a_state_of_other_data_is_not_used(project, capsys, change):
    spec, root = toy_spec(), Path("none")
    root.mkdir()
    record = {
        "job": "prepare",
        "inputs": {},
        "outputs": {"none/a": {"sha256": "1"}},
        "fingerprint": "f",
        "started": "1",
    }
    (root / "manifest.json").write_text('{"a": 1}')
    (root / "record.json").write_text(json.dumps(record))
    stopped_half_way(spec)
    if change == "manifest":
        (root / "manifest.json").write_text('{"a": 2}')
    else:  # of the record, a new time is no other data
        changed = {"outputs": {"none/a": {"sha256": "2"}}} if change == "record" else {"started": "2"}
        (root / "record.json").write_text(json.dumps(record | changed))
    capsys.readouterr()
    train_run(spec, ToyTask())
    said = capsys.readouterr().err
    assert ("goes on at step 8" in said) == (change == "none")
    assert ("(data.manifest.json." in said and "not used, the training starts at step 0" in said) == (change != "none")


@pytest.mark.parametrize("change", ["files", "folder"])
def test_a_state_of_a_person_s_other_data_is_not_used(project, capsys, change):
    spec, folder = toy_spec(), Path("results/smoke/data")
    folder.mkdir(parents=True)
    (folder / "cls.json").write_text("{}")
    record = {
        "job": "check",
        "inputs": {},
        "outputs": {},
        "fingerprint": "f",
        "folders": {"outside/x": {"listing": "a"}},
    }
    (folder / "cls.record.json").write_text(json.dumps(record))
    stopped_half_way(spec)
    if change == "files":
        record["folders"] = {"outside/x": {"listing": "b"}}
    else:  # the same files in another place
        record["folders"] = {"outside/y": {"listing": "a"}}
    (folder / "cls.record.json").write_text(json.dumps(record))
    train_run(spec, ToyTask())
    assert ("goes on at step 8" in capsys.readouterr().err) == (change == "folder")


@pytest.mark.slow
def test_a_state_of_another_number_of_processes_is_not_used(project, capsys):
    """Each process draws for its share of a batch, so two of them train otherwise than one."""
    spec = toy_spec()
    train_run(spec, ToyTask())
    straight = bits(spec)
    clear(spec)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = [str(Path(__file__).parent / "job_process.py"), "1"]
    with subprocess.Popen([*launcher, *script], cwd=project, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not states(spec) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
    assert states(spec)
    capsys.readouterr()
    train_run(spec, ToyTask())
    assert "(processes: 2 -> 1); not used, the training starts at step 0" in capsys.readouterr().err
    assert bits(spec) == straight


@pytest.mark.slow
def test_two_processes_train_like_one(project, tmp_path_factory):
    spec = toy_spec()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = str(Path(__file__).parent / "job_process.py")
    done = subprocess.run(
        [*launcher, script, "0", "plain"],
        cwd=project,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    two = load_file(run_of(spec).folder / "model.safetensors")
    record = json.loads(published(spec)["run.json"])
    assert record["processes"] == 2
    single = tmp_path_factory.mktemp("single")
    os.chdir(single)
    train_run(spec, ToyTask(noisy=False))
    one = load_file(run_of(spec).folder / "model.safetensors")
    for name, tensor in one.items():
        assert torch.allclose(tensor.float(), two[name].float(), atol=1e-4), name


LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def ranks_of(launcher):
    """Numbers of the processes that a launcher has started, in the order of their ranks."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and (place / "stat").exists():
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (place / "environ").read_bytes().split(b"\0") if parent == launcher else []
            found += [(name, int(place.name)) for name in variables if name.startswith(b"RANK=")]
    return [number for _, number in sorted(found)]


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_of_which_one_is_killed_or_all_are_asked_to_end_go_on_to_the_same_bits(project):
    spec = toy_spec()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = str(Path(__file__).parent / "job_process.py")

    def start(pause):
        return subprocess.Popen(
            [*LAUNCHER, script, pause], env=environment, stderr=subprocess.PIPE, text=True, cwd=project
        )

    def until_a_state(process):
        deadline = time.monotonic() + 120
        before = len(states(spec))
        while len(states(spec)) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    straight = start("0")
    assert straight.wait(timeout=240) == 0
    expected = bits(spec)
    clear(spec)
    first = start("0.3")
    until_a_state(first)
    killed = ranks_of(first.pid)
    assert len(killed) == 2
    os.kill(killed[1], signal.SIGKILL)
    said = first.communicate(timeout=90)[1]  # the other one does not hang
    assert first.returncode != 0
    assert "Signal 9 (SIGKILL)" in said
    assert not any(Path(f"/proc/{number}").exists() for number in killed)
    second = start("0.3")
    until_a_state(second)
    second.terminate()
    said = second.communicate(timeout=90)[1]
    assert second.returncode != 0
    assert "asked to end (SIGTERM) at step" in said
    assert start("0").wait(timeout=240) == 0
    assert bits(spec) == expected
