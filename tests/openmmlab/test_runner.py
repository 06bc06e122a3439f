"""The configurations under `configs/`: what they say; MMEngine trains, resumes in mixed precision and tests each."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import AmpOptimWrapper
from mmengine.runner import Runner
from tiny_configs import BACKBONE, STEPS, mixed_precision, tiny

import tap.openmmlab
from tap.config import load_scale
from tap.reducers.base import Reducer

FOLDER = Path(__file__).parents[2] / "configs"
CONFIGS = sorted(FOLDER.glob("*/tap-*.py"))
TRAINED = [  # the two detectors differ in their heads, and train for most of a minute
    pytest.param(path, marks=pytest.mark.long if "_mask-rcnn_" in path.stem else [], id=path.stem) for path in CONFIGS
]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_says_what_the_paper_scale_says(path):
    """Sizes, rates and blocks stand in both; they may not drift apart."""
    config = Config.fromfile(path)
    task = load_scale("paper").tasks[config.model.backbone.task]
    model, optimizer = task.model, task.method.optimizer
    assert config.model.backbone.type == "TapViT"
    assert config.model.backbone.model == {
        name: value
        for name, value in model.model_dump(exclude_defaults=True).items()
        if name not in ("read_blocks", "head_channels", "detector")
    }
    assert [index + 1 for index in config.model.backbone.out_indices] == list(model.read_blocks)
    given = config.optim_wrapper.optimizer
    assert (given.lr, given.weight_decay) == (optimizer.lr, optimizer.weight_decay)
    assert config.optim_wrapper.paramwise_cfg.decay_rate == optimizer.layer_decay
    assert config.train_dataloader.batch_size * 8 == task.method.batch_size
    assert [hook.type for hook in config.custom_hooks] == ["TapProgressHook"]
    warmup, decay = config.param_scheduler
    assert warmup.end == task.method.schedule.warmup
    if "max_iters" in config.train_cfg:
        assert config.train_cfg.max_iters == decay.end == task.method.length


@pytest.mark.slow
@pytest.mark.parametrize("path", TRAINED)
def test_the_runner_trains_resumes_in_mixed_precision_and_tests(path, ade_root, coco_root, tmp_path):
    root = ade_root if path.parent.name == "segmentation" else coco_root
    runner = Runner.from_cfg(tiny(path, root, tmp_path))
    before = {name: value.clone() for name, value in runner.model.named_parameters()}
    runner.train()
    after = dict(runner.model.named_parameters())
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert [name for name in moved if "reducer" in name], "the register learned nothing"
    reducers = [module for module in runner.model.modules() if isinstance(module, Reducer)]
    assert [module.progress for module in reducers] == [(STEPS - 1) / STEPS]

    config = tiny(path, root, tmp_path)
    config.resume, config.load_from = True, str(tmp_path / "iter_2.pth")
    mixed_precision(config)
    again = Runner.from_cfg(config)
    again.train()
    assert isinstance(again.optim_wrapper, AmpOptimWrapper)
    assert again.iter == STEPS
    metrics = again.test()
    assert metrics
    assert all(value >= 0 or value == -1 for value in metrics.values())
    kept = torch.load(tmp_path / f"iter_{STEPS}.pth", map_location="cpu", weights_only=False)["state_dict"]
    assert not [name for name in kept if name.startswith(("backbone.layers", "backbone.pos_embed"))]


@pytest.mark.slow
def test_gradients_under_autocast():
    model = tap.openmmlab.MAETapViT(BACKBONE, "seg").train()
    model.encoder.reducer.set_progress(0.5)
    with torch.autocast("cpu", torch.bfloat16):
        maps = model(torch.randn(2, 3, 64, 64))
        sum(level.float().square().mean() for level in maps).backward()
    assert [name for name, value in model.named_parameters() if value.grad is None] == []
