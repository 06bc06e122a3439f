"""Lends this folder the tiny encoders of `tests/encoder`, and its own `public_vit` and `public_weights`."""

import sys
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "encoder"), str(Path(__file__).parent)]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
