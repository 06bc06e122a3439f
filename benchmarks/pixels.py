"""Top-1 of two classifiers that see the pixels of Fashion-MNIST, for as many steps as the desk scale's encoder.

    tap data prepare cls && python benchmarks/pixels.py        # 20 seconds of one core
    python benchmarks/pixels.py --steps 4000 --seeds 0

A linear function of the 784 pixels, and one hidden layer as wide as a box head of the desk scale. It tells what a head
may know that can read the pixels past an encoder. All 60,000 training images take part, without augmentation; the
score is that of the test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from tap.tasks.classification import fashion

HIDDEN = 96
CLASSES = len(fashion.CLASSES)
Split = tuple[Tensor, Tensor]


def read(root: Path) -> tuple[Split, Split]:
    """Pixels `(N, 784)` from 0 to 1 and classes `(N,)` of the training and of the test images."""
    images = [torch.tensor(fashion.read_images(root / file.name)) for file in fashion.FILES[::2]]
    classes = [torch.tensor(fashion.read_labels(root / file.name, CLASSES)) for file in fashion.FILES[1::2]]
    train, test = ((part.flatten(1) / 255, kinds.long()) for part, kinds in zip(images, classes, strict=True))
    return train, test


def trained_score(model: nn.Module, train: Split, test: Split, args: argparse.Namespace) -> float:
    """Top-1 of the test images in percent, after AdamW with a cosine to zero."""
    optimizer = AdamW(model.parameters(), args.lr)
    schedule = CosineAnnealingLR(optimizer, args.steps)
    epochs = -(-args.steps * args.batch // len(train[0]))
    order = torch.cat([torch.randperm(len(train[0])) for _ in range(epochs)])
    for batch in order[: args.steps * args.batch].split(args.batch):
        optimizer.zero_grad()
        cross_entropy(model(train[0][batch]), train[1][batch]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return 100 * (model(test[0]).argmax(1) == test[1]).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/fashion_mnist"))
    parser.add_argument("--steps", type=int, default=4349)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    train, test = read(args.data)
    for name, build in {
        "linear": lambda: nn.Linear(train[0].shape[1], CLASSES),
        f"{HIDDEN} hidden": lambda: nn.Sequential(
            nn.Linear(train[0].shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        ),
    }.items():
        scores = []
        for seed in args.seeds:
            torch.manual_seed(seed)
            scores.append(trained_score(build(), train, test, args))
        print(f"{name:10} " + ", ".join(f"{score:.1f}" for score in scores))


if __name__ == "__main__":
    main()
