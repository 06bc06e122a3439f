"""A short version of the stress test; ``python tests/stress/kill.py`` is the long one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import kill


@pytest.mark.slow
@pytest.mark.long
def test_a_killed_workflow_goes_on_by_the_same_command(tmp_path):
    data = kill.ROOT / kill.DATA
    if not (data / "manifest.json").is_file():
        pytest.skip("needs the data: tap data prepare cls")
    lines = kill.stress(tmp_path, data, kills=2, seed=1, steps=40, targets=["paper_tables/tab_cls.tex"])
    assert sum("killed" in line for line in lines) == 2, lines
