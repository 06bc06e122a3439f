"""Lends this folder the tiny encoders of `tests/encoder`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "encoder"))
