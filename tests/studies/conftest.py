"""Makes `toy_task` of the engine tests and `tiny_models` of the encoder tests importable here, and a tiny data set."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
sys.path.insert(0, str(Path(__file__).parents[1] / "encoder"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from tasks.conftest import cls_spec, idx_root  # noqa: F401  fixtures
