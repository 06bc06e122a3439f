"""The short version of the stress test; ``python tests/stress/kill.py`` is the long one."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill.py")


@pytest.mark.slow
def test_a_killed_workflow_goes_on_by_the_same_command(tmp_path):
    spec = importlib.util.spec_from_file_location("kill", SCRIPT)
    kill = importlib.util.module_from_spec(spec)
    sys.modules["kill"] = kill
    spec.loader.exec_module(kill)
    data = kill.ROOT / "data" / "fashion_mnist"
    if not (data / "manifest.json").is_file():
        pytest.skip("needs the data: tap data prepare cls")
    lines = kill.stress(tmp_path, data, kills=2, seed=1, steps=40, targets=["paper_tables/tab_cls.tex"])
    assert sum("killed" in line for line in lines) == 2, lines
