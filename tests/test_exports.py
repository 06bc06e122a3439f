"""What torch's compilers and exporters do with a model: nothing, the same bits, or one clear message."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError

VIT: dict[str, Any] = {"image_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4}
SCHEDULE = ControllerConfig(layers=(2, 3), schedule=(1, 2))


def made(**options: Any) -> Any:
    torch.manual_seed(0)
    given = {"controller": ControllerConfig(layers=(2, 3)), "num_classes": 5}
    return tap.create_model("vit_tiny_patch16_224", **VIT | given | options).eval()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("method", ["tap", "static", "attn_topk", "random", "evit", "tome", "dense"])
def test_a_fixed_schedule_is_exported(method, images, tmp_path):
    model = made(method=method, controller=SCHEDULE)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (images,)), tmp_path / "model.pt2")
        exported = torch.export.load(tmp_path / "model.pt2").module()
        for other in (images, torch.randn(3, 3, 32, 32), 5 * torch.randn(3, 3, 32, 32)):
            assert torch.equal(exported(other), model(other))


@pytest.mark.parametrize(("method", "depth"), [("tap", 4), ("ats", 12)])
def test_a_learned_schedule_is_not_exported(method, depth, images):
    with pytest.raises(UserError, match=r"export: how many patches .* depends on the image"):
        torch.export.export(made(method=method, depth=depth), (images,))


def test_one_pruning_block_leaves_the_same_count_everywhere(images):
    model = made(controller=ControllerConfig(layers=(3,)))
    assert torch.equal(torch.export.export(model, (images,)).module()(images), model(images))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_refused(images):
    model = made()
    for attempt in (lambda: torch.jit.script(model), lambda: torch.jit.trace(model, images)):
        with pytest.raises(UserError, match=r"torch.jit: a model whose rows differ .* cannot be scripted or traced"):
            attempt()


def test_compiling_changes_nothing_and_compiles_nothing_per_batch():
    model, counter = made(), CompileCounter()
    compiled = torch.compile(model, backend=counter)
    with torch.no_grad():
        for scale in range(1, 5):
            images = scale * torch.randn(3, 3, 32, 32)
            assert torch.equal(compiled(images), model(images))
    assert counter.frame_count == 0
