"""DistributedDataParallel finds a gradient for every parameter that it waits for."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tap
from tap.config.register import ControllerConfig

VIT: dict[str, Any] = {"image_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4}


def made(**options: Any) -> Any:
    torch.manual_seed(0)
    given = {"controller": ControllerConfig(layers=(2, 3)), "num_classes": 5, "anneal_steps": 10}
    return tap.create_model("vit_tiny_patch16_224", **VIT, **given | options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep_rate": 1.0},
        {"controller": ControllerConfig(layers=(3,))},
        {"controller": ControllerConfig(layers=(2, 3), schedule=(1, 1))},
        {"global_pool": "avg"},
        {"method": "attn_topk"},
    ],
)
def test_every_trainable_parameter_gets_a_gradient(options):
    model = made(**options).train()
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    without = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
    assert all(name.startswith("encoder.reducer.controller.") for name in frozen)


def test_a_dense_task_trains_the_recovery_readout():
    model = tap.wrap(made().encoder.vit, task="seg", controller=ControllerConfig(layers=(2, 3)), anneal_steps=5).train()
    grids = model.forward_intermediates(torch.randn(2, 3, 32, 32), 2, intermediates_only=True)
    sum(grid.square().mean() for grid in grids).backward()
    controller = model.encoder.reducer.controller
    assert all(p.grad is not None for p in controller.parameters())


def _train(rank: int, port: int, found: Any) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = DistributedDataParallel(made())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):  # a parameter that is waited for in vain stops the second step
        torch.manual_seed(10 * step + rank)
        loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 32, 32)), torch.arange(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    gathered = [torch.empty_like(weights) for _ in range(2)]
    dist.all_gather(gathered, weights)
    found[rank] = torch.equal(*gathered) and int(model.module.train_steps) == 3
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_without_find_unused_parameters():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with mp.Manager() as manager:
        found = manager.dict()
        mp.spawn(_train, (port, found), nprocs=2)
        assert dict(found) == {0: True, 1: True}
