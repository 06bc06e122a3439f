"""Makes `tiny_models` and `reference` of the encoder tests, and `grid_tasks`, importable here."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "encoder"), str(Path(__file__).parent)]
