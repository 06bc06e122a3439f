"""Small project folders with invented runs and probes, for what reads results."""

import json
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tap.config.methods import DENSE, SCORES
from tap.paper.evidence import Evidence
from tap.paper.scores import scores_of
from tap.paper.statistics import mean_iou
from tap.paper.tables.build import build_table, render_table
from tap.paper.tidy import gather
from tap.paper.tidy_probes import gather_probes
from tap.plan.results import PROBES, tidy_path
from tap.runs import Run

sys.path.insert(0, str(Path(__file__).parent))  # `browser`, `crate_validator`

IMAGES = 400
ROOT = Path(__file__).parents[2]
FEW_IMAGES = 300
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


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
            "device": "CPU, 2 threads & more_",
        }
        arrays = {"correct": correct, "sample_id": np.arange(IMAGES)}
        return self.add(run, values | metrics, arrays)

    def profile(self, task: str, speedups: dict[str, float], **parts) -> None:
        """A profile, as `add_profile`."""
        add_profile(self.root, task, speedups, **parts)

    def evidence(self, runs, scale: str = "desk") -> Evidence:
        """What the runs measured, gathered as the job does."""
        with_settings(self.root)
        runs = list(runs)
        for task in {run.task for run in runs}:
            frame = gather([run for run in runs if run.task == task], self.root)
            path = self.root / tidy_path(scale, task)
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.to_csv(path, index=False)
        return Evidence(scale, self.root)

    def table(self, name: str, runs, scale: str = "desk") -> dict[str, str]:
        """Contents of a table's files by suffix."""
        contents = render_table(name, self.evidence(runs, scale))
        return {suffix: content.decode() for suffix, content in contents.items()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def cls_runs(project: Project) -> list[Run]:
    """Two seeds of four methods; the order contradicts the paper in one place: Random above TAP-J."""
    accuracies: dict[str, float] = {"dense": 0.9, "random": 0.88, "attn_topk": 0.84, "tap": 0.80}
    return [project.add_cls(method, value, seed) for method, value in accuracies.items() for seed in (0, 1)]


@dataclass
class Results:
    """Writes runs, tidy tables and probes as the jobs do."""

    root: Path
    scale: str = "desk"

    def run(
        self,
        method: str,
        accuracy: float = 0.8,
        *,
        task: str = "cls",
        rate: float = 0.5,
        variant: str = "main",
        seed: int = 0,
        **metrics,
    ) -> Run:
        run = Run(self.scale, task, method, 1.0 if method == DENSE else rate, variant, seed)
        folder = self.root / run.folder
        folder.mkdir(parents=True)
        # Methods share the order in which images become wrong, so that differences are sharp.
        correct = np.random.default_rng(seed).permutation(FEW_IMAGES) < round(accuracy * FEW_IMAGES)
        arrays = {"cls": {"correct": correct}, "seg": one_class(correct), "det": one_object(correct)}[task]
        metric = SCORES[task][0]
        values = {
            metric: scores_of(task, arrays)[metric],
            "patches": 64,
            "final_tokens_mean": 64.0 if method == DENSE else 64 * rate,
            "final_tokens_sd": 0.0,
            "device": "a machine",
        }
        (folder / "metrics.json").write_text(json.dumps(values | metrics))
        data = {f"data/fashion_mnist/{name}.json": {} for name in ("manifest", "record")}
        dense = Run(self.scale, task, DENSE, seed=seed).folder.as_posix() + "/model"
        inputs = data if method == DENSE else {dense: {}}
        record = {"fingerprint": "f" * 64, "spec": {"seed": seed}, "inputs": inputs, "outputs": {}}
        (folder / "run.json").write_text(json.dumps(record))
        np.savez(folder / "per_sample.npz", sample_id=np.arange(FEW_IMAGES), **arrays)
        return run

    def profile(self, task: str, speedups: dict[str, float], **parts) -> None:
        """A profile, as `add_profile`."""
        add_profile(self.root, task, speedups, **parts)

    def repeated(self, *runs: Run) -> list[Run]:
        """The runs, and those of two more seeds that score the same where only one seed was made."""
        for run in list(runs):
            others = [replace(run, seed=run.seed + more) for more in (1, 2)]
            if not any(other in runs for other in others) and run.seed == 0:
                for other in others:
                    if not (self.root / other.folder).is_dir():
                        shutil.copytree(self.root / run.folder, self.root / other.folder)
                runs = (*runs, *others)
        return list(runs)

    def gather(self, *runs: Run) -> None:
        for task in {run.task for run in runs}:
            frame = gather([run for run in runs if run.task == task], self.root)
            frame.to_csv(self.root / tidy_path(self.scale, task), index=False)

    def probe(
        self,
        task: str,
        kind: str,
        drops: dict[tuple[str, int, float | None], float],
        seeds: tuple[int, ...] = (0,),
    ) -> None:
        """A probe with given drops, by criterion, block and endpoint, and one more for each further seed.

        Drops are points of accuracy, which are half as many of mean IoU. Detection, whose AP is not made up
        here, has no values of single images.
        """
        folder = self.root / "results" / self.scale / "probes" / task / kind
        folder.mkdir(parents=True)
        order = np.random.default_rng(0).permutation(FEW_IMAGES)
        rows, parts = [], []
        for seed in seeds:
            for (criterion, layer, endpoint), drop in {(DENSE, 0, None): 0.0, **drops}.items():
                lost = drop + seed * (criterion != DENSE)
                correct = order < round((0.8 - lost / 100) * FEW_IMAGES)
                common = {"run": f"{task}/dense/r1.00/main/s{seed}", "seed": seed, "criterion": criterion}
                common |= {"layer": layer, "endpoint": endpoint, "keep_rate": 0.5, "tokens": 32.0, "images": FEW_IMAGES}
                accuracy = 100 * float(correct.mean())
                score = float(mean_iou(confusion(correct)["confusion"].sum(axis=0))) if task == "seg" else accuracy
                for metric in SCORES[task]:
                    rows.append({**common, "metric": metric, "value": score, "position": len(parts)})
                parts.append(correct)
        pd.DataFrame(rows).to_csv(folder / "values.csv", index=False)
        record = {"device": "a machine", "fingerprint": "f" * 64, "dataset": "microscopy"}
        (folder / "probe.json").write_text(json.dumps(record))
        arrays = {"correct": np.stack(parts)}
        if task == "seg":
            arrays = {"confusion": np.stack([confusion(part)["confusion"] for part in parts])}
        if task != "det":
            np.savez(folder / "per_sample.npz", sample_id=np.arange(FEW_IMAGES), **arrays)
        frame = gather_probes(self.scale, task, self.root)
        frame.to_csv(self.root / tidy_path(self.scale, f"{PROBES}{task}"), index=False)


def add_profile(
    root: Path,
    task: str,
    speedups: dict[str, float],
    *,
    device: str = "gpu-some-card",
    shapes: str = "paper",
    noise: float = 0.0,
    half: float = 0.01,
    **parts,
) -> None:
    """A profile with given speed-ups, each with an interval of `half` to both sides; TAP-J needs 0.3 GB of 0.4."""

    def method(ratio: float, gigabytes: float) -> dict:
        full = {"images_per_second": 50 * ratio, "ratio": ratio, "low": ratio - half, "high": ratio + half}
        memory = {"peak_gb": gigabytes, "weights": 2e8, "activations": 1e9 * gigabytes - 2e8}
        speed = {"images_per_second": 100 * ratio, "speedup": ratio, "interval": [ratio - half, ratio + half]}
        return {**speed, "full": full, "memory": memory, "gflops_per_image": 10, "bound": 1.4, "of_bound": ratio / 1.4}

    names = ("register", "ranking", "matching", "packing", "encoder", "reconstruction", "head")
    components = {"ms": dict.fromkeys(names, 1.0), "percent": dict.fromkeys(names, 14.0)}
    protocol = {"dtype": "bf16", "iterations": 500, "rounds": 5}
    content = {
        "about": {"device": f"{device} in words", "protocol": protocol},
        **{"kernel": "sdpa_flash", "batch": 64, "wanted_batch": 64, "disturbed": False, "dense_spread": 0.02},
        "methods": {"dense": method(1.0 + noise, 0.4)} | {name: method(ratio, 0.3) for name, ratio in speedups.items()},
        "components": {**components, "end_to_end_ms": 7.1, "sum_percent": 98.0, "within": True},
    }
    path = root / "results" / "profiles" / device / shapes / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | parts))


def confusion(correct: np.ndarray) -> dict[str, np.ndarray]:
    """One pixel for each image, of class 0; a wrong one is taken for class 1."""
    matrices = np.zeros((len(correct), 2, 2))
    matrices[:, 0, 0], matrices[:, 0, 1] = correct, ~correct
    return {"confusion": matrices}


def one_class(correct: np.ndarray) -> dict[str, np.ndarray]:
    """One pixel of the one class in each image, so that the mean IoU is the share of right ones."""
    return {"areas": np.stack([correct, correct, np.ones_like(correct)], axis=1)[..., None].astype(int)}


def one_object(correct: np.ndarray) -> dict[str, np.ndarray]:
    """One object and one detection in each image, false ones with the lowest scores: AP is the share of right ones."""
    shape = (len(correct), 4, 1)
    arrays = {
        "objects": np.ones(shape, int),
        "labels": np.zeros((len(correct), 1), int),
        "scores": correct[:, None] / 2,
    }
    for kind in ("box", "mask"):
        hits = np.broadcast_to(np.where(correct, 2**10 - 1, 0)[:, None, None], shape).astype(np.uint16)
        arrays |= {f"{kind}_hits": hits, f"{kind}_ignored": np.zeros(shape, np.uint16)}
    return arrays


def with_settings(folder: Path) -> Path:
    """Puts the settings of every scale into a folder, with the desk scale in use."""
    for name in (f"workflow/scales/{scale}.yaml" for scale in ("smoke", "desk", "paper")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / name).read_text())
    (folder / "params.yaml").write_text("scale: desk\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A folder with this project's settings and no results."""
    return with_settings(tmp_path)


@pytest.fixture
def results(settings: Path) -> Results:
    return Results(settings)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with runs, a table, a picture, and text that would break a careless page; tests only read it."""
    results = Results(with_settings(tmp_path_factory.mktemp("audited")))
    accuracies = {"dense": 0.9, "random": 0.8, "static": 0.85, "tap": 0.7}
    runs = [
        results.run(name, value, seed=seed, device="</script><b>& 'machine'")
        for name, value in accuracies.items()
        for seed in (0, 1, 2)
    ]
    results.gather(*runs)
    build_table("tab_cls", "desk", results.root / "results/desk/tables", results.root)
    (results.root / runs[0].folder / "picture.png").write_bytes(PIXEL)
    return results.root
