"""The tiny data of the tasks' tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tasks.conftest import cls_spec, idx_root  # noqa: F401  fixtures
