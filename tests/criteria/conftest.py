"""Makes `slow_criteria` importable by the tests of this folder."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
