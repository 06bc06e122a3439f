"""Cards that a plan can be made for, and how fast this project's trainings are taken to run on them.

Nothing here has been measured with this code. A task's rate is the share of a card's peak that its training is taken
to reach, with where that comes from; the interval is what the plan's interval is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tap.task_facts import TASKS


@dataclass(frozen=True)
class Accelerator:
    """A card.

    Attributes:
        peak: bf16 operations per second without sparsity, by its maker.
        memory: bytes.
        watts: at full load, by its maker.
        speed: how fast it trains beside an H100; memory and launches bind small ViTs, so this is not the peaks' ratio.
    """

    peak: float
    memory: float
    watts: float
    speed: float


ACCELERATORS: Final = {
    "h100": Accelerator(989e12, 80e9, 700.0, 1.0),
    "a100": Accelerator(312e12, 80e9, 400.0, 0.5),
    "rtx4090": Accelerator(165e12, 24e9, 450.0, 0.4),
}


@dataclass(frozen=True)
class Utilisation:
    """What a task reaches.

    Attributes:
        share: of an H100's peak.
        low, high: the plan's hours are multiplied by these for its interval.
        source: where the share comes from.
    """

    share: float
    low: float
    high: float
    source: str


_OTHER: Final = Utilisation(0.11, 0.4, 2.5, "assumed: as segmentation; not measured")

UTILISATION: Final = dict.fromkeys(TASKS, _OTHER) | {
    "cls": Utilisation(0.13, 0.6, 1.6, "assumed: eager ViT-B at 224 pixels with timm's augmentation; not measured"),
    "seg": Utilisation(0.11, 0.6, 1.6, "assumed: eager ViT-B at 512 pixels with a light head; not measured"),
    "det": Utilisation(
        0.0383,
        0.75,
        1.5,
        "public: 0.362 s an image on an A100 (Detectron2's ViTDet page, ViT-B, Cascade Mask R-CNN), half on an H100",
    ),
}
