"""Lends this folder the tiny encoders of `tests/encoder`."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "encoder"))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
