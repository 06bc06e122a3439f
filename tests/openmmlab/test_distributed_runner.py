"""Two processes train a configuration, and no parameter of the backbone is left without a gradient."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_configs import STEPS

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("distributed_run.py")
SEGFORMER = ROOT / "configs/segmentation/tap-vit-b_segformer_160k_ade20k-512x512.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "configs"),
    [
        ("fp32", [SEGFORMER]),
        pytest.param("bf16", sorted(ROOT.glob("configs/*/tap-*.py")), marks=pytest.mark.long),
    ],
    ids=["segformer", "all-in-mixed-precision"],
)
def test_two_processes_train_without_find_unused_parameters(precision, configs, ade_root, coco_root, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = os.pathsep.join([str(ROOT), str(SCRIPT.parent)])
    given = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "PYTHONPATH": path}
    given |= {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, SCRIPT, precision, ade_root, coco_root, tmp_path / "work", *configs]
    # YAPF, which prints configurations, names its cached grammar before it has written it: each process has its own.
    started = [
        subprocess.Popen(
            [str(part) for part in command],
            env=given | {"RANK": rank, "LOCAL_RANK": rank, "XDG_CACHE_HOME": str(tmp_path / rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in ("0", "1")
    ]  # fmt: skip
    done = [process.communicate(timeout=600) for process in started]
    failed = [errors[-3000:] for process, (_, errors) in zip(started, done, strict=True) if process.returncode]
    assert not failed, "\n\n".join(failed)  # of both: one process that ends takes the other with it
    for told, _ in done:
        for config in configs:
            assert f"{config.stem} EQUAL {STEPS}" in told.splitlines()
