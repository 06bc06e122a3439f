"""One of several processes that train tiny configurations together; says of each whether all end with equal weights.

Called as `distributed_run.py PRECISION DATA-OF-SEG DATA-OF-DET WORK CONFIG...` with the variables that `torchrun` sets.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from mmengine.model import MMDistributedDataParallel
from mmengine.runner import Runner
from tiny_configs import mixed_precision, tiny

import tap.openmmlab  # noqa: F401  registers the names


def main(precision: str, segmentation: str, detection: str, work: str, *configs: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")  # OpenMMLab's own start asks for a graphics card
    for config in map(Path, configs):
        data = segmentation if config.parent.name == "segmentation" else detection
        settings = tiny(config, Path(data), Path(work) / config.stem)
        settings.launcher, settings.model_wrapper_cfg = "pytorch", {"device_ids": None, "broadcast_buffers": False}
        settings.train_cfg.val_interval = 100  # the metrics of two processes are OpenMMLab's own
        assert "find_unused_parameters" not in settings
        if precision == "bf16":
            mixed_precision(settings)
        print(config.stem, *train(settings), flush=True)
    dist.destroy_process_group()


def train(settings) -> tuple[str, int]:
    """EQUAL or DIFFERENT, and the number of steps."""
    runner = Runner.from_cfg(settings)
    assert isinstance(runner.model, MMDistributedDataParallel)
    assert runner.world_size == 2
    runner.train()  # a parameter that is waited for in vain stops the second step
    own = torch.cat([parameter.detach().flatten() for parameter in runner.model.parameters()])
    gathered = [torch.empty_like(own) for _ in range(2)]
    dist.all_gather(gathered, own)
    return "EQUAL" if torch.equal(*gathered) else "DIFFERENT", runner.iter


if __name__ == "__main__":
    main(*sys.argv[1:])
