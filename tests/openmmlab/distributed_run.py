"""One of several processes that train a tiny configuration together; says whether all of them end with equal weights.

Called as `distributed_run.py CONFIG DATA WORK` with the variables that `torchrun` sets.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from mmengine.model import MMDistributedDataParallel
from mmengine.runner import Runner
from tiny_configs import tiny

import tap.openmmlab  # noqa: F401  registers the names


def main(config: str, data: str, work: str) -> None:
    torch.set_num_threads(1)
    settings = tiny(Path(config), Path(data), Path(work))
    dist.init_process_group("gloo")  # OpenMMLab's own start asks for a graphics card
    settings.launcher, settings.model_wrapper_cfg = "pytorch", {"device_ids": None, "broadcast_buffers": False}
    settings.train_dataloader.batch_size = 1
    settings.train_cfg.val_interval = 100  # the metrics of two processes are OpenMMLab's own
    assert "find_unused_parameters" not in settings
    runner = Runner.from_cfg(settings)
    assert isinstance(runner.model, MMDistributedDataParallel)
    assert runner.world_size == 2
    runner.train()  # a parameter that is waited for in vain stops the second step
    own = torch.cat([parameter.detach().flatten() for parameter in runner.model.parameters()])
    gathered = [torch.empty_like(own) for _ in range(2)]
    dist.all_gather(gathered, own)
    print("EQUAL" if torch.equal(*gathered) else "DIFFERENT", runner.iter)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
