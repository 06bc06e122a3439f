"""A small project folder with invented runs, for what reads results."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tap.runs import Run

IMAGES = 400


@dataclass
class Project:
    """Writes runs as the evaluation job does."""

    root: Path

    def add(self, run: Run, metrics: dict, arrays: dict | None = None, record: dict | None = None) -> Run:
        folder = self.root / run.folder
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps(metrics))
        spec = {
            "train": {"length": 4.0, "unit": "epochs", "batch_size": 128},
            "start_from": "pretrained" if run.method == "dense" else "dense",
            "data": {"name": "fashion_mnist" if run.task == "cls" else "microscopy"},
        }
        (folder / "run.json").write_text(json.dumps(record or {"spec": spec, "fingerprint": "f" * 8}))
        if arrays is not None:
            np.savez(folder / "per_sample.npz", **arrays)
        return run

    def add_cls(self, method: str, accuracy: float, seed: int = 0, rate: float = 0.5, **metrics) -> Run:
        """A classification run; methods share the order in which images become wrong, so that differences are small."""
        run = Run("desk", "cls", method, 1.0 if method == "dense" else rate, seed=seed)
        hard = np.random.default_rng(seed).permutation(IMAGES)
        correct = hard < round(accuracy * IMAGES)
        values = {
            "top1": 100.0 * float(correct.mean()),
            "patches": 64,
            "final_tokens_mean": 64.0 if method == "dense" else 32.0,
            "final_tokens_sd": 0.0,
            "parameters": 1_380_000,
            "parameters_added": {"dense": 0, "tap": 290}.get(method, 0),
            "encoder_images_per_second": 100.0 if method == "dense" else 131.4,
            "encoder_speedup": 1.0 if method == "dense" else 1.31,
            "kernel": "sdpa_math",
            "dtype": "fp32",
            "batch_size": 64,
            "device": "CPU, 2 threads & more_",
        }
        arrays = {"correct": correct, "sample_id": np.arange(IMAGES)}
        return self.add(run, values | metrics, arrays)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def cls_runs(project: Project) -> list[Run]:
    """Two seeds of four methods; the order contradicts the paper in one place: Random above TAP-J."""
    accuracies: dict[str, float] = {"dense": 0.9, "random": 0.88, "attn_topk": 0.84, "tap": 0.80}
    return [project.add_cls(method, value, seed) for method, value in accuracies.items() for seed in (0, 1)]
