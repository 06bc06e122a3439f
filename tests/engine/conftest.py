"""Makes `toy_task`, the tiny models and the joint model of other tests importable by the tests of this folder."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / place) for place in ("engine", "encoder", "tasks")]
