"""Settings and tiny made data shared by the data tests."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tap.config.data import DataConfig
from tap.config.detector import DetectorConfig
from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.config.register import ControllerConfig
from tap.config.schema import AugmentConfig, JobSpec, OptimizerConfig, PretrainConfig, TrainConfig

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "encoder")]  # `joint_views`, `tiny_models`

TINY_DETECTOR = DetectorConfig(
    pyramid_channels=8, anchor_scale=4, proposal_convs=1, proposal_samples=16, proposals_before_nms=(30, 30),
    proposals=(20, 20), box_samples=8, box_convs=1, box_width=16, mask_convs=1, head_channels=8, detections=10,
)  # fmt: skip


@pytest.fixture
def reaches_own_weights():
    """Checks that a term of a method is in the loss, and that the method's own parameters learn from it."""

    def check(task, model, batch, term: str) -> None:
        model.train().encoder.reducer.set_progress(0.9)
        loss, parts = task.loss(model, batch, 0.9)
        assert parts[term] > 0
        loss.backward()
        own = dict(model.encoder.reducer.named_parameters())
        assert own
        assert [name for name, parameter in own.items() if parameter.grad is None] == []

    return check


def make_spec(data: DataConfig, model: ModelConfig, augment: AugmentConfig, task: str = "cls") -> JobSpec:
    train = TrainConfig(length=1, batch_size=4, optimizer=OptimizerConfig(lr=1e-3), augment=augment)
    return JobSpec(
        scale="smoke", task=task, method="dense", rate=1.0, variant="main", seed=0, device="cpu",
        data=data, model=model, pretrain=PretrainConfig(train=train), start_from="scratch",
        controller=ControllerConfig(), static_split=(100.0,), train=train,
        eval=EvalConfig(batch_size=4),
    )  # fmt: skip


@pytest.fixture
def cls_spec(idx_root):
    """Makes the settings of a tiny Fashion-MNIST; keyword arguments change the data section or the augmentation."""

    def make(augment: dict | None = None, model: dict | None = None, **data):
        settings = {"name": "fashion_mnist", "root": str(idx_root), "num_classes": 10, "mean": (0.3,), "std": (0.35,)}
        settings |= {"calibration": 20} | data
        sizes = {"image_size": 32, "patch_size": 4, "channels": 1, "width": 16, "heads": 2} | (model or {})
        return make_spec(DataConfig(**settings), ModelConfig(**sizes), AugmentConfig(**(augment or {})))

    return make


@pytest.fixture
def seg_spec(ade_root):
    """Makes the settings of a tiny ADE20K; keyword arguments change the data section, augmentation, model or eval."""

    def make(augment: dict | None = None, model: dict | None = None, evaluation: dict | None = None, **data):
        settings = {"name": "ade20k", "root": str(ade_root), "num_classes": 4, "mean": (0.5,) * 3, "std": (0.25,) * 3}
        settings |= {"calibration": 2} | data
        sizes = {"image_size": 32, "patch_size": 8, "channels": 3, "width": 16, "heads": 2} | (model or {})
        spec = make_spec(DataConfig(**settings), ModelConfig(**sizes), AugmentConfig(**(augment or {})), task="seg")
        return spec.model_copy(update={"eval": EvalConfig(batch_size=2, **(evaluation or {}))})

    return make


@pytest.fixture
def det_spec(coco_root):
    """Makes the settings of a tiny COCO; keyword arguments change the data section, augmentation or model."""

    def make(augment: dict | None = None, model: dict | None = None, **data):
        settings = {"name": "coco", "root": str(coco_root), "num_classes": 2, "mean": (0.5,) * 3, "std": (0.25,) * 3}
        settings |= {"calibration": 2} | data
        sizes = {"image_size": 32, "patch_size": 8, "width": 16, "heads": 2, "class_token": False, "window": 2}
        sizes |= {"global_blocks": (3, 6, 9, 12), "rel_pos": True, "read_blocks": (12,)}
        sizes["detector"] = TINY_DETECTOR
        sizes |= model or {}
        return make_spec(DataConfig(**settings), ModelConfig(**sizes), AugmentConfig(**(augment or {})), task="det")

    return make


@pytest.fixture
def coco_root(tmp_path):
    """COCO's layout with 8 + 3 images of 48 x 40 pixels; each has two objects and a crowd region, the last ones none.

    The objects are a polygon (class 5) and an uncompressed run-length code (class 2), as COCO stores them.
    """
    root = tmp_path / "coco"
    rng = np.random.default_rng(0)
    (root / "annotations").mkdir(parents=True)
    for split, count in (("train2017", 8), ("val2017", 3)):
        (root / split).mkdir()
        images, annotations = [], []
        for number in range(count):
            name = f"{number:012d}.jpg"
            Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(root / split / name)
            images.append({"id": 100 + number, "file_name": name, "height": 40, "width": 48})
            if number < count - 1:
                annotations += _objects(100 + number, len(annotations), left=4 + number)
        categories = [{"id": 2, "name": "block"}, {"id": 5, "name": "triangle"}]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return root


def _objects(image: int, first: int, left: int) -> list[dict]:
    block = np.zeros((40, 48), dtype=bool)
    block[20:36, left : left + 12] = True
    runs = np.diff(np.flatnonzero(np.diff(block.ravel(order="F"), prepend=False)), prepend=0, append=block.size)
    mask = {"size": [40, 48], "counts": runs.tolist()}
    triangle = [left + 15.0, 4.0, left + 27.0, 4.0, left + 15.0, 16.0]
    entries = [
        {"category_id": 2, "bbox": [left, 20, 12, 16], "area": 192, "segmentation": mask, "iscrowd": 0},
        {"category_id": 5, "bbox": [left + 15, 4, 12, 12], "area": 72.0, "segmentation": [triangle], "iscrowd": 0},
        {"category_id": 2, "bbox": [left, 20, 12, 16], "area": 192, "segmentation": mask, "iscrowd": 1},
    ]
    return [entry | {"id": first + number, "image_id": image} for number, entry in enumerate(entries, start=1)]


@pytest.fixture
def ade_root(tmp_path):
    """ADE20K's layout with 8 + 3 images of 48 x 40 pixels; label 0 is void, labels 1..4 are classes."""
    root = tmp_path / "ade20k"
    rng = np.random.default_rng(0)
    for split, count in (("training", 8), ("validation", 3)):
        for kind in ("images", "annotations"):
            (root / kind / split).mkdir(parents=True)
        for number in range(count):
            name = f"ADE_{split}_{number:08d}"
            pixels = rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "images" / split / f"{name}.jpg")
            labels = np.kron(rng.integers(0, 5, (5, 6)), np.ones((8, 8))).astype(np.uint8)
            Image.fromarray(labels).save(root / "annotations" / split / f"{name}.png")
    return root


@pytest.fixture
def idx_root(tmp_path):
    """A folder with 100 + 40 random images in the idx format, labels 0..9 in turn."""
    root = tmp_path / "fashion_mnist"
    root.mkdir()
    for prefix, count in (("train", 100), ("t10k", 40)):
        pixels = np.random.default_rng(count).integers(0, 256, (count, 28, 28))
        write_idx(root / f"{prefix}-images-idx3-ubyte", pixels)
        write_idx(root / f"{prefix}-labels-idx1-ubyte", np.arange(count) % 10)
    return root


def write_idx(path: Path, values: np.ndarray) -> None:
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())
