"""Makes `toy_task` importable by the tests of this folder and by the processes that they start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
