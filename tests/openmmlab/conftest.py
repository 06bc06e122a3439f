"""The data sets of the task tests, and tiny sizes for the configurations."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tasks.conftest import ade_root, coco_root, det_spec, idx_root, seg_spec  # noqa: F401  fixtures
