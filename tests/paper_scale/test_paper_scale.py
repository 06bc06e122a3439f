"""Every code path of the paper scale on a few images in the real formats: its sizes, augmentation, heads and ViT-B.

The settings are those of `workflow/scales/paper.yaml` but for lengths, batches and numbers of images. Over an hour of
one core, three quarters of it detection and TAP-F, and 10 GB of memory; `make test-long` runs them.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import formats
import pytest
import torch
import yaml
from typer.testing import CliRunner

from tap import cli
from tap.config import load_scale
from tap.config.methods import DENSE
from tap.plan.runs import runs_of_table
from tap.reducers.build import build_vit

ROOT = Path(__file__).resolve().parents[2]
SUBSETS = {"cls": (12, 3), "seg": (6, 2), "det": (8, 2)}
METHODS = {
    "cls": ("random", "attn_topk", "evit", "dynamicvit", "evovit", "ats", "tome", "diffrate", "cropr", "static", "tap"),
    "seg": ("tome", "algm", "dtop", "tap"),
    "det": ("svit", "tap"),
}
BATCH = {"cls": 2, "seg": 2, "det": 1}  # an image of detection takes over a minute, forth and back
LAYER = {"cls": 6, "seg": 6, "det": 9}  # whose passes go through blocks with windows as well
TRAINING = {"length": 2, "unit": "steps", "schedule.warmup": 1, "micro_batch": 1}

pytestmark = [pytest.mark.slow, pytest.mark.long]


def overrides():
    """What the toy size changes of the paper scale."""
    found = {"device": "cpu", "variants": [], "keep_rates": [0.5], "joint.train.steps": 4, "joint.seeds": [0]}
    found |= {"joint.train.schedule.warmup": 1, "joint.train.micro_batch": 1, "joint.train.checkpointing": True}
    for task, subset in SUBSETS.items():
        section = {"data.subset": list(subset), "data.calibration": 2, "data.limit_val": 1, "data.workers": 1}
        section |= {"pretrain.sha256": None, "pretrain.size": None}  # other weights than the public ones
        section |= {"seeds": [0], "eval.batch_size": 1, "probes.images": 1, "probes.layers": [LAYER[task]]}
        section |= {"profile.warmup": 1, "profile.iterations": 1, "profile.batch_size": 1}
        section |= {"controls.images": 1, "controls.calibration_images": 1, "controls.choice_images": 1}
        section |= {"controls.oracle_images": 1, "controls.oracle_step": 50, "controls.choice_side": 2}
        for part in ("dense", "method"):
            section |= {f"{part}.{name}": value for name, value in TRAINING.items()}
            section[f"{part}.batch_size"] = BATCH[task]
            if task == "det":  # without a fused kernel on the CPU, its attention would keep 10 GB
                section[f"{part}.checkpointing"] = True
                section[f"{part}.schedule.milestones"] = [1]
        found |= {f"tasks.{task}.{name}": value for name, value in section.items()}
    return found | {"tasks.cls.data.num_classes": len(formats.WNIDS)}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with the three data sets and random weights in MAE's form, looked at."""
    folder, before = tmp_path_factory.mktemp("paper"), os.getcwd()
    (folder / "workflow").mkdir()
    shutil.copytree(ROOT / "workflow" / "scales", folder / "workflow" / "scales")
    os.chdir(folder)
    formats.imagenet(folder / "data/imagenet")
    formats.ade20k(folder / "data/ade20k")
    formats.coco(folder / "data/coco")
    (folder / "params.yaml").write_text(yaml.safe_dump({"scale": "paper", "overrides": {"paper": overrides()}}))
    torch.manual_seed(0)
    vit = build_vit(load_scale("paper").tasks["cls"].model)
    (folder / "data/weights").mkdir()
    torch.save({"model": vit.state_dict()}, folder / "data/weights/mae_pretrain_vit_base.pth")
    call("preflight")
    for task in SUBSETS:
        call("data", "check", task, "--report", f"results/paper/data/{task}.json")
    yield folder
    os.chdir(before)
    shutil.rmtree(folder)  # a gigabyte of weights


@pytest.fixture
def no_pruning(project):
    """Trains the no-pruning run of a task, once, and chooses its endpoint where methods read one."""

    def make(task):
        call("train", f"{task}/dense/r1.00/main/s0")  # nothing to do where it is there
        if task == "seg" and not (project / "results/paper/endpoint_seg.json").is_file():
            call("endpoint", "seg")

    return make


def call(*words):
    """Runs a command in this process; errors come out as they are."""
    result = CliRunner().invoke(cli.app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def measured(run):
    metrics = json.loads((Path("results/paper/runs") / run / "metrics.json").read_text())
    return json.dumps(metrics)


def test_every_method_of_the_paper_is_here():
    cfg = load_scale("paper")
    ours = {name for found in METHODS.values() for name in found} | {DENSE, "tap_f"}
    assert ours == {run.method for task in cfg.tasks for run in runs_of_table(cfg, task)}


@pytest.mark.parametrize("task", SUBSETS)
def test_no_pruning_is_evaluated_and_probed(project, no_pruning, task):
    no_pruning(task)
    call("evaluate", f"{task}/dense/r1.00/main/s0")
    assert "NaN" not in measured(f"{task}/dense/r1.00/main/s0")
    if task != "cls":
        call("probe", "recovery", task)
    call("probe", "layers", task)
    assert (project / "results/paper/probes" / task / "layers/values.csv").is_file()


@pytest.mark.parametrize(("task", "method"), [(task, name) for task, names in METHODS.items() for name in names])
def test_a_method_is_trained_and_evaluated(no_pruning, task, method):
    no_pruning(task)
    run = f"{task}/{method}/r0.50/main/s0"
    call("train", run)
    call("evaluate", run)
    assert "NaN" not in measured(run)
    if method == "tap":
        call("control", run)


def test_all_tasks_are_trained_on_one_base(project):
    call("train-joint", "tap_f/r0.50/main/s0")
    for task in SUBSETS:
        call("evaluate", f"{task}/tap_f/r0.50/main/s0")
