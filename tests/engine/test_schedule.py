"""Schedules against closed forms, step by step."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tap.config.schema import OptimizerConfig, ScheduleConfig, TrainConfig
from tap.engine.schedule import Schedule
from tap.errors import UserError

LR = 0.4


def settings(length, unit="steps", **schedule):
    return TrainConfig(
        length=length, unit=unit, batch_size=4, optimizer=OptimizerConfig(lr=LR), schedule=ScheduleConfig(**schedule)
    )


def optimizer(*scales):
    return torch.optim.AdamW(
        [{"params": [nn.Parameter(torch.zeros(1))], "lr_scale": s} for s in scales or (1.0,)], lr=LR
    )


def curve(train, steps, steps_per_epoch=1):
    schedule = Schedule(optimizer(), train, steps_per_epoch)
    return [schedule.set(step) for step in range(steps)]


def test_cosine_rises_linearly_from_zero_and_falls_to_the_final_share():
    found = curve(settings(20, kind="cosine", warmup=5, final_lr=0.1), 21)
    floor = 0.1 * LR
    wanted = [LR * t / 5 for t in range(5)] + [
        floor + (LR - floor) * (1 + math.cos(math.pi * (t - 5) / 15)) / 2 for t in range(5, 21)
    ]
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("power", [1.0, 0.9])
def test_poly_falls_with_its_power_after_the_warm_up(power):
    found = curve(settings(20, kind="poly", warmup=4, power=power), 20)
    wanted = [LR * t / 4 for t in range(4)] + [LR * (1 - (t - 4) / 16) ** power for t in range(4, 20)]
    assert found == pytest.approx(wanted, abs=1e-12)


def test_step_drops_at_milestones_counted_from_the_start_of_the_training():
    found = curve(settings(20, kind="step", warmup=4, milestones=(8, 15), gamma=0.1), 20)
    wanted = [LR * t / 4 for t in range(4)] + [LR] * 4 + [0.1 * LR] * 7 + [0.01 * LR] * 5
    assert found == pytest.approx(wanted, abs=1e-12)


def test_epochs_are_converted_to_steps_with_fractions():
    in_epochs = curve(settings(2, unit="epochs", warmup=0.5), 20, steps_per_epoch=10)
    assert in_epochs == curve(settings(20, warmup=5), 20)


def test_the_rate_depends_on_the_step_alone():
    train = settings(20, warmup=5)
    straight = curve(train, 20)
    schedule = Schedule(optimizer(), train, 1)
    assert [schedule.set(step) for step in (17, 3, 3, 11)] == [straight[step] for step in (17, 3, 3, 11)]


def test_every_group_gets_the_rate_times_its_own_factor():
    groups = optimizer(0.25, 1.0, 10.0)
    rate = Schedule(groups, settings(20), 1).set(7)
    assert [group["lr"] / rate for group in groups.param_groups] == pytest.approx([0.25, 1.0, 10.0])


@pytest.mark.parametrize(
    ("schedule", "named"),
    [
        ({"warmup": 19.8}, "train.schedule.warmup"),
        ({"kind": "step", "milestones": (8.1, 8.2)}, r"schedule.milestones \[8.1, 8.2\]"),
        ({"kind": "step", "milestones": (8, 19.9)}, r"schedule.milestones \[8.0, 19.9\]"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_by_name(schedule, named):
    with pytest.raises((UserError, ValidationError), match=named):
        Schedule(optimizer(), settings(20, **schedule), 1)
