"""The entries of the tasks: what is known of each without importing it, and which way its metrics are better."""

import ast
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tap.config.datasets import DATASETS
from tap.paper.probe_results import ProbeResults, ranks
from tap.studies.probes import preferred_endpoint
from tap.task_facts import TASKS, Metric, TaskFacts
from tap.tasks.recovery_endpoint import choose_endpoint

RMSE = Metric("rmse", "RMSE", "m", higher_is_better=False)


def function_names(module):
    tree = ast.parse(Path(*module.split(".")).with_suffix(".py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_entries_name_what_is_there():
    assert list(TASKS) == ["cls", "seg", "det"]
    assert [facts.score.name for facts in TASKS.values()] == ["top1", "miou", "box_ap"]
    assert [name for name, facts in TASKS.items() if facts.dense] == ["seg", "det"]
    assert [facts.probes for facts in TASKS.values()] == [("layers",), *[("layers", "recovery")] * 2]
    for facts in TASKS.values():
        module, _, name = facts.pipeline.partition(":")
        assert name in function_names(module)
        assert not facts.drawing or "draw" in function_names(facts.drawing)
        assert not facts.views or {"pixels", "truth", "predicted", "interest"} <= function_names(facts.views)


def test_every_data_set_is_prepared_or_checked():
    assert list(DATASETS) == ["fashion_mnist", "imagenet", "microscopy", "ade20k", "fashion_scenes", "coco"]
    for data in DATASETS.values():
        assert bool(data.preparing) != bool(data.checking)
        assert (
            "prepare" in function_names(data.preparing) if data.preparing else "check" in function_names(data.checking)
        )


def test_a_depth_task_is_one_entry(monkeypatch):
    """An error in metres: what pruning loses is what it adds, and a floor is left behind from above."""
    depth = TaskFacts("depth", "Depth", "tap.tasks.depth.task:Depth", (RMSE,), (), dense=True)
    monkeypatch.setitem(TASKS, "depth", depth)
    assert depth.probes == ("layers", "recovery")
    common = {"task": "depth", "scale": "smoke", "seed": 0, "metric": "rmse", "per_sample": "", "probe": "layers"}
    rows = [("dense", 0, 1.0), ("good", 3, 1.25), ("bad", 3, 2.0)]
    frame = pd.DataFrame(
        [
            common | {"criterion": name, "layer": layer, "value": value, "position": number, "endpoint": 1.0}
            for number, (name, layer, value) in enumerate(rows)
        ]
    )
    drops = ProbeResults(frame).mean_drops("rmse")
    assert {name: drop.value for name, drop in drops.items()} == {"good": 0.25, "bad": 1.0}
    assert [place.value for place in ranks(drops).values()] == [1.0, 2.0], "the smaller error is the smaller drop"


def test_no_torch_is_needed():
    code = "import sys; sys.argv = ['tap']; import tap.config, tap.task_facts, tap.method_facts"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("metric", "sign"), [(Metric("top1", "top-1"), 1), (RMSE, -1)])
def test_a_gain_has_the_sign_of_better(metric, sign):
    assert metric.gain(3.0, 2.0) == sign


@pytest.mark.parametrize(("metric", "better"), [(Metric("miou", "mIoU"), 1.0), (RMSE, 0.0)])
def test_the_endpoint_is_the_better_one_not_the_larger_one(metric, better, tmp_path):
    """Both choices of an endpoint: of a task, on its calibration split, and of the probes."""
    from types import SimpleNamespace

    from tap.encoder.recovery_buffer import RecoverySettings

    model = SimpleNamespace(encoder=SimpleNamespace(recovery=RecoverySettings()))
    choice = choose_endpoint([model], lambda model: 2.0 + model.encoder.recovery.scale, metric)
    assert choice.endpoint == better
    rows = [(metric.name, "coverage", alpha, 2.0 + alpha) for alpha in (0.0, 1.0)]
    pd.DataFrame(rows, columns=["metric", "criterion", "endpoint", "value"]).to_csv(tmp_path / "values.csv")
    assert preferred_endpoint(tmp_path / "values.csv", metric) == better
