"""Which datasets the workflow fetches, and which are a person's own."""

from __future__ import annotations

from typing import Final

PREPARED: Final = {
    "fashion_mnist": "tap.tasks.classification.fashion",
    "microscopy": "tap.tasks.segmentation.data_tiles",
}
"""Datasets that the workflow fetches, with the module whose `prepare` does."""
CHECKED: Final = {
    "imagenet": "tap.tasks.classification.check",
    "ade20k": "tap.tasks.segmentation.check",
    "coco": "tap.tasks.detection.check",
}
"""A person's own datasets, with the module whose `check` looks at them."""
