"""The data sets of the task tests, tiny sizes for the configurations, and a process left as it was found."""

import contextlib
import sys
from pathlib import Path

import cv2
import pytest
import torch
import torch.multiprocessing
from mmengine.logging import MessageHub, MMLogger
from mmengine.optim.optimizer import amp_optimizer_wrapper
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from tasks.conftest import ade_root, coco_root, det_spec, idx_root, seg_spec  # noqa: F401  fixtures

GLOBALS = (DefaultScope, MessageHub, MMLogger, Visualizer)
"""What MMEngine keeps by name for the whole process; the newest of each is the one in use."""


@pytest.fixture(autouse=True)
def process_as_found(monkeypatch):
    """A Runner sets what all later tests of its process would see; all of it is taken back."""
    monkeypatch.setattr(amp_optimizer_wrapper, "is_cuda_available", amp_optimizer_wrapper.is_cuda_available)
    kept = [(kind, kind._instance_dict.copy()) for kind in GLOBALS]
    start, threads = torch.multiprocessing.get_start_method(allow_none=True), cv2.getNumThreads()
    with torch.random.fork_rng(devices=[]):
        yield
    for kind, instances in kept:
        for name in kind._instance_dict.keys() - instances.keys():
            with contextlib.suppress(AttributeError):  # only those of loggers write to files
                for handler in kind._instance_dict[name].handlers:
                    handler.close()
        kind._instance_dict.clear()
        kind._instance_dict.update(instances)
    torch.multiprocessing.set_start_method(start, force=True)
    cv2.setNumThreads(threads)
