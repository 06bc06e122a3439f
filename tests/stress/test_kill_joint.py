"""A workflow is killed in the middle of a joint training: the same command goes on, to the bits of an unbroken one."""

import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import kill

PARAMS = """\
scale: smoke
tasks: [cls, seg]
overrides:
  smoke:
    tasks.cls.methods: [dense, tap_f]
    tasks.seg.methods: [dense, tap_f]
    tasks.det.methods: [dense]
    joint.start.steps: 60
    joint.start.checkpoint_seconds: 0.1
    joint.start.log_steps: 2
"""
START = [f"results/smoke/runs/{task}/tap_f/r1.00/start/s0" for task in ("cls", "seg")]


@pytest.mark.slow
@pytest.mark.long
def test_a_joint_training_goes_on_after_the_workflow_was_killed(tmp_path):
    data = {name: kill.ROOT / "data" / name for name in ("fashion_mnist", "microscopy")}
    if not all((path / "manifest.json").is_file() for path in data.values()):
        pytest.skip("needs the data: tap data prepare cls, tap data prepare seg")
    found = []
    for name, killed in (("quiet", False), ("killed", True)):
        place, log = tmp_path / name, tmp_path / f"{name}.log"
        place.mkdir()
        folder = kill.Folder(place, data["fashion_mnist"], steps=4, targets=[f"{START[0]}/model.safetensors"])
        shutil.copytree(data["microscopy"], place / "data" / "microscopy")
        (place / "params.yaml").write_text(PARAMS)
        if killed:
            workflow = folder.start(log)
            while not list((place / ".tap/resume/smoke/joint").rglob("*.state")):
                assert workflow.poll() is None, log.read_text()[-3000:]
                time.sleep(0.02)
            workflow.send_signal(signal.SIGKILL)
            workflow.wait()
            folder.ended()
            assert not (place / START[0] / "model.safetensors").exists(), "it was killed too late"
        assert folder.start(log).wait() == 0, log.read_text()[-3000:]
        folder.ended()
        assert ("goes on at step" in log.read_text()) == killed
        assert not folder.torn()
        found.append({run: (place / run / "model.safetensors").read_bytes() for run in START})
    assert found[0] == found[1]
