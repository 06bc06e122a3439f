"""Replays of a small training in this process: equal to itself, and different from small changes of meaning."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from tap.config import load_scale
from tap.plan.specs import job_spec
from tap.recertify import driver
from tap.recertify.compare import compare
from tap.runs import Run

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "fashion_mnist"
RUN = Run("smoke", "cls", "tap", 0.5)


def test_values_are_told_apart_by_bits_type_and_shape():
    values = [
        torch.zeros(4), -torch.zeros(4), torch.zeros(2, 2), torch.zeros(4, dtype=torch.bfloat16), np.zeros(4),
        0.0, -0.0, 0, "0", torch.tensor(0.0), torch.tensor(0), None,
    ]  # fmt: skip
    assert len({driver.hash_of_value(value) for value in values}) == len(values)
    assert driver.hash_of_value(torch.ones(2, 3).t()) == driver.hash_of_value(torch.ones(3, 2))


@pytest.mark.parametrize("total", [1, 4, 8, 12, 40, 128, 5000])
def test_the_first_the_last_and_steps_in_between_are_replayed(total):
    found = [step for start, steps in driver.segments(total) for step in range(start, start + steps)]
    assert found == sorted(set(found))
    assert found[:2] == list(range(min(2, total)))
    assert found[-1] == total - 1
    assert len(found) == min(total, 5)
    brief = [step for start, steps in driver.segments(total, brief=True) for step in range(start, start + steps)]
    assert brief == sorted({0, total - 1})


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("tasks", [["seg", "cls"], ["cls", "seg", "det"]])
def test_a_joint_replay_trains_every_task(tasks, seed):
    task_of = driver._drawn(tasks, {"sampler_seed": seed})
    steps = [step for start, length in driver.segments(60, task_of=task_of) for step in range(start, start + length)]
    assert {task_of(step) for step in steps} == set(tasks)
    assert steps == sorted(set(steps))
    assert len(steps) <= 5


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(driver.Missing, match=r"tap\.seeds\.nothing"):
        driver.take("tap.seeds", "nothing")
    with pytest.raises(driver.Missing, match=r"tap\.nothing\.at_all"):
        driver.take("tap.nothing", "at_all")


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Replays a training of 12 steps from random weights, of which 5 are looked at."""
    if not DATA.is_dir():
        pytest.skip("needs the data: tap data prepare cls")
    from tap.engine import job

    spec = job_spec(load_scale("smoke", root=ROOT), RUN).model_dump(mode="json") | {"start_from": "scratch"}
    spec["train"] |= {"length": 12, "batch_size": 4}
    monkeypatch.setattr(job, "ResumeStates", job.ResumeStates)  # the driver takes its place
    number = iter(range(99))

    def once():
        folder = tmp_path / str(next(number))
        folder.mkdir()
        (folder / "data").symlink_to(ROOT / "data")
        before = os.getcwd()
        os.chdir(folder)
        try:
            return {"trace": driver.replay_training({"spec": spec, "folder": RUN.folder.as_posix()}).entries}
        finally:
            os.chdir(before)

    return once


@pytest.mark.slow
def test_a_replay_is_equal_to_itself_and_finds_small_changes_of_meaning(replay, monkeypatch):
    from tap.core import straight_through
    from tap.engine import loop
    from tap.reducers import tap

    before = replay()
    places = list(dict.fromkeys(place for place, _, _ in before["trace"]))
    assert places == [*(f"step {step}" for step in (0, 1, 3, 9, 11)), "end"]
    found = compare(before, replay())
    assert found.equal
    assert found.compared > 3000

    late = tap.cosine_temperature
    changes = {
        "late": (tap, "cosine_temperature", lambda done, *ends: late(done, *ends) * (1.01 if done > 0.95 else 1.0)),
        "gradient": (straight_through, "SATURATED", 1e9),
        "order": (loop, "derive_seed", lambda *parts: 1),
    }
    first = {}
    for name, (module, attribute, value) in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(module, attribute, value)
            first[name] = compare(before, replay()).difference
    assert first["late"].startswith("step 11: gradient of "), first
    assert first["gradient"].startswith("step 0: "), first
    assert first["order"].startswith("step 0: "), first
