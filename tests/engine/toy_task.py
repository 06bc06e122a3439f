"""A task of a few hundred parameters that uses everything the loop must keep in order.

Its loss draws from the global generators (dropout, NumPy, Python), its samples from their own seeds, and its model has
a buffer, a controller and a head.
"""

import random
import time

import numpy as np
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.config.data import DataConfig
from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.config.register import ControllerConfig
from tap.config.schema import JobSpec, OptimizerConfig, PretrainConfig, ScheduleConfig, TrainConfig
from tap.task_facts import CLS
from tap.tasks.base import Batch, Evaluation, Item, Sample, Splits, Task, seeded_rng
from tap.tasks.classification.task import Classification

CLASSES = 3


def toy_spec(
    method="dense", seed=0, width=12, start_from="scratch", variant="main", weights=None, sha256=None, **train
):
    optimizer = OptimizerConfig(**{"lr": 1e-2, "layer_decay": 0.8, "clip_grad": 1.0, **train.pop("optimizer", {})})
    schedule = ScheduleConfig(warmup=train.pop("warmup", 2))
    settings = {"length": 12, "unit": "steps", "batch_size": 8, "log_steps": 2, "checkpoint_seconds": 1e-9, **train}
    return JobSpec(
        scale="smoke",
        task="cls",
        method=method,
        rate=1.0 if method in ("dense", "mae") else 0.5,
        variant=variant,
        seed=seed,
        device="cpu",
        data=DataConfig(
            name="fashion_mnist", root="none", num_classes=CLASSES, mean=(0.5,), std=(0.5,), calibration=0, workers=0
        ),
        model=ModelConfig(image_size=8, patch_size=4, channels=1, width=width, depth=2, heads=2),
        pretrain=PretrainConfig(
            weights=weights,
            sha256=sha256,
            train=None if weights else TrainConfig(length=1, batch_size=8, optimizer=optimizer),
        ),
        start_from=start_from,
        controller=ControllerConfig(layers=(1, 2)),
        static_split=(50.0, 50.0),
        train=TrainConfig(optimizer=optimizer, schedule=schedule, **settings),
        eval=EvalConfig(batch_size=8, threads=1),
    )


class ToyData(torch.utils.data.Dataset):
    """Images whose class is the brightest third, with noise from the item's seed."""

    def __init__(self, length=30, train=True):
        self.length, self.train = length, train

    def __len__(self):
        return self.length

    def __getitem__(self, item):
        index, seed = item if isinstance(item, Item) else (item, 0)
        label = index % CLASSES
        with seeded_rng(seed):
            noise = torch.randn(1, 8, 8) * 0.3 + np.random.rand() * 0.1  # noqa: NPY002  as augmentations do
        noise[:, :, label * 3 : label * 3 + 2] += 1.0
        random.random()  # a library that draws while loading must not shift the draws of the loss
        return Sample(noise, label, index, seed)


class ToyModel(nn.Module):
    def __init__(self, width, controller):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.vit = VisionTransformer(
            img_size=8, patch_size=4, in_chans=1, embed_dim=width, depth=2, num_heads=2, num_classes=0
        )
        self.encoder.reducer = nn.Linear(width, 1) if controller else nn.Identity()
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, images):
        self.seen += self.training
        return self.head(self.encoder.reducer(features := self.encoder.vit(images)).sum() * 0 + features)


class ToyTask(Task):
    """`noisy` draws in the loss; from the progress `bad_from` on, the loss is not a number; a step takes `pause` s."""

    facts = CLS

    def __init__(self, noisy=True, bad_from=2.0, pause=0.0):
        self.noisy, self.bad_from, self.pause = noisy, bad_from, pause

    def datasets(self, spec):
        return Splits(ToyData(), ToyData(6, train=False), ToyData(9, train=False))

    def collate(self, spec, train):
        return toy_collate

    def build_model(self, spec):
        with seeded_rng(spec.seed):
            return ToyModel(spec.model.width, controller=spec.method not in ("dense", "mae"))

    def loss(self, model, batch, progress):
        time.sleep(self.pause)
        images = batch.images
        if self.noisy:
            images = nn.functional.dropout(images, 0.1) + 0.01 * (np.random.rand() + random.random())  # noqa: NPY002
        loss = nn.functional.cross_entropy(model(images), batch.targets)
        return loss * (float("nan") if progress >= self.bad_from else 1.0), {"progress": progress}

    def evaluate(self, model, spec, split, device):
        data = self.datasets(spec).get(split)
        samples = [data[index] for index in range(len(data))]
        with torch.no_grad():
            guess = model.eval()(torch.stack([sample.image for sample in samples])).argmax(1)
        right = np.array([int(g) == sample.target for g, sample in zip(guess, samples, strict=True)])
        ids = np.array([sample.sample_id for sample in samples])
        return Evaluation({"top1": 100.0 * right.mean()}, {"sample_id": ids, "correct": right})


def toy_collate(samples):
    return Batch(
        torch.stack([sample.image for sample in samples]),
        torch.tensor([sample.target for sample in samples]),
        torch.tensor([sample.sample_id for sample in samples]),
    )


class SmallClassification(Classification):
    """The project's classification on the toy's images."""

    def datasets(self, spec):
        return ToyTask().datasets(spec)
