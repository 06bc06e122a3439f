"""What timm's training and validation scripts do with a model, call by call, on a name of TAP's.

The scripts are not part of timm's package, so their calls are repeated here: the keyword sets of `create_model`,
`create_optimizer_v2` and `create_scheduler_v2`, average of weights, mixed precision, checkpoints, resuming.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from timm.data import Mixup, resolve_data_config, resolve_input_data_config
from timm.loss import SoftTargetCrossEntropy
from timm.models import load_checkpoint, model_parameters, resolve_model_input_args, resume_checkpoint, safe_model_name
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import CheckpointSaver, ModelEmaV2, ModelEmaV3, accuracy, dispatch_clip_grad, random_seed, unwrap_model
from torch import Tensor, nn

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError

NAME = "tap_vit_tiny_patch16_224"
KWARGS: dict[str, Any] = {
    "patch_size": 8,
    "embed_dim": 24,
    "num_heads": 2,
    "depth": 4,
    "controller": ControllerConfig(layers=(2, 3)),
    "keep_rate": 0.5,
}
"""As `--model-kwargs` gives them."""


def training_model(**options: Any) -> Any:
    """`create_model` with all that train.py hands over; what was not given on its command line is None."""
    given = {
        "pretrained": False,
        "in_chans": None,
        "num_classes": 5,
        "drop_rate": 0.1,
        "drop_path_rate": 0.1,
        "drop_block_rate": None,
        "global_pool": None,
        "bn_momentum": None,
        "bn_eps": None,
        "scriptable": False,
        "checkpoint_path": "",
        "pretrained_cfg_overlay": {},
        "cache_dir": None,
        "img_size": 32,
        **KWARGS,
    }
    torch.manual_seed(0)
    return timm.create_model(NAME, **given | options)


def batches(number: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Images with a bright column whose place is their class."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(number):
        target = torch.randint(5, (8,), generator=generator)
        images = torch.randn(8, 3, 32, 32, generator=generator) * 0.1
        for image, label in zip(images, target.tolist(), strict=True):
            image[:, :, 6 * label : 6 * label + 6] += 2.0
        made.append((images, target))
    return made


def optimizer_of(model: nn.Module) -> Any:
    return create_optimizer_v2(
        model, opt="adamw", lr=1e-2, weight_decay=0.05, momentum=0.9, eps=1e-8, betas=(0.9, 0.95), layer_decay=0.75
    )


def steps(model: Any, optimizer: Any, ema: Any, number: int, first: int = 0, amp: bool = True) -> list[float]:
    """One epoch as `train_one_epoch` runs it."""
    scheduler, _ = create_scheduler_v2(
        optimizer,
        sched="cosine",
        num_epochs=2,
        warmup_epochs=0,
        min_lr=1e-5,
        step_on_epochs=False,
        updates_per_epoch=12,
    )
    mixup = Mixup(mixup_alpha=0.1, cutmix_alpha=0.0, label_smoothing=0.1, num_classes=model.num_classes)
    loss_fn, losses = SoftTargetCrossEntropy(), []
    model.train()
    optimizer.zero_grad()
    for step, (images, target) in enumerate(batches(number, first), start=first):
        random_seed(step)  # Mixup draws from numpy
        images, target = mixup(images.contiguous(memory_format=torch.channels_last), target)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            loss = loss_fn(model(images), target)
        loss.backward(create_graph=False)
        dispatch_clip_grad(model_parameters(model, exclude_head=False), value=1.0, mode="norm")
        optimizer.step()
        optimizer.zero_grad()
        if ema is not None:
            ema.update(model, step=step)
        scheduler.step_update(num_updates=step + 1, metric=loss.item())
        losses.append(loss.item())
    return losses


@pytest.mark.filterwarnings("ignore:set_progress was not called")
def test_a_training_by_timm_s_calls(tmp_path):
    model = training_model()
    assert model.num_classes == 5
    model.get_classifier().weight.data.mul_(1.0)  # --head-init-scale
    model.set_grad_checkpointing(enable=True)
    data = resolve_data_config({"img_size": 32}, model=model, verbose=False)
    assert (data["input_size"], data["mean"]) == ((3, 32, 32), (0.5, 0.5, 0.5))
    model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(model)
    ema = ModelEmaV3(model, decay=0.9, use_warmup=True)
    losses = steps(model, optimizer, ema, 32)
    assert sum(losses[-8:]) / 8 < sum(losses[:8]) / 8 - 0.2
    saver = CheckpointSaver(
        model=model,
        optimizer=optimizer,
        args=argparse.Namespace(model=NAME),
        model_ema=ema,
        checkpoint_dir=str(tmp_path),
        recovery_dir=str(tmp_path),
        max_history=2,
    )
    saver.save_checkpoint(0, metric=1.0)
    saver.save_recovery(1, batch_idx=3)
    assert safe_model_name(NAME) == NAME

    again = training_model()
    again.to(memory_format=torch.channels_last).set_grad_checkpointing(enable=True)
    other = optimizer_of(again)
    assert resume_checkpoint(again, str(tmp_path / "last.pth.tar"), optimizer=other, log_info=False) == 1
    assert int(again.train_steps) == 32
    averaged = ModelEmaV3(again, decay=0.9)
    load_checkpoint(averaged.module, str(tmp_path / "last.pth.tar"), use_ema=True)
    same = zip(averaged.module.state_dict().values(), ema.module.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in same)
    assert steps(again, other, None, 4, 32) == steps(model, optimizer, None, 4, 32)
    found, expected = again.state_dict(), model.state_dict()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []
    assert again.encoder.reducer.temperature == model.encoder.reducer.temperature < 1.0


@pytest.mark.parametrize("average", [ModelEmaV2, ModelEmaV3])
def test_averages_of_weights(average):
    model = training_model(anneal_steps=10)
    ema = average(model, decay=0.5)
    steps(model, optimizer_of(model), None, 2)
    ema.update(model)
    head = ema.module.get_classifier()
    assert not torch.equal(head.weight, model.head.weight)
    assert unwrap_model(model) is model


def test_a_validation_by_timm_s_calls(tmp_path):
    torch.save({"state_dict": {f"module.{n}": v for n, v in training_model().state_dict().items()}}, tmp_path / "a.pth")
    arguments = {"img_size": None, "input_size": None, "in_chans": None}
    options = {**KWARGS, "img_size": 32}
    model = timm.create_model(
        **resolve_model_input_args(
            NAME, arguments, pretrained=False, num_classes=5, global_pool=None, scriptable=False, **options
        )
    )
    load_checkpoint(model, str(tmp_path / "a.pth"), False)
    data = resolve_input_data_config(model, arguments, use_test_size=True)
    assert data["input_size"] == (3, 32, 32)
    model = model.to(device="cpu", dtype=None).eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(4, *data["input_size"])).shape == (4, 5)
        images, target = batches(1)[0]
        output = model(images)
        assert output.shape == (8, 5)
        assert len(accuracy(output.float(), target, topk=(1, 5))) == 2
        assert nn.functional.cross_entropy(output.float(), target).isfinite()
    model.to(torch.bfloat16)
    assert model(images.bfloat16()).dtype == torch.bfloat16


def test_num_classes_left_out():
    assert training_model(num_classes=None).num_classes == 1000


def test_a_checkpoint_by_its_path(tmp_path):
    torch.save(training_model().state_dict(), tmp_path / "b.pth")
    path = Path(tmp_path / "b.pth")
    model = training_model(checkpoint_path=str(path), in_chans=3)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), torch.load(path).values(), strict=True))


def test_nobody_tells_the_progress():
    """The temperature follows the model's own count; said once."""
    model = training_model(anneal_steps=None).train()
    images = batches(1)[0][0]
    with pytest.warns(UserWarning, match="first 10000 training passes of this model; call model.set_progress"):
        model(images)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(images)
        model(images)
    assert int(model.train_steps) == 3
    model.eval()(images)
    assert int(model.train_steps) == 3
    model = training_model(anneal_steps=4).train()
    seen = []
    for _ in range(6):
        model(images)
        seen.append(model.encoder.reducer.temperature)
    assert seen[0] == 1.0
    assert seen == sorted(seen, reverse=True)
    assert seen[4:] == pytest.approx([0.1, 0.1])
    copied = copy.deepcopy(model)
    fresh = training_model(anneal_steps=4).train()
    fresh.load_state_dict(copied.state_dict())
    fresh(images)
    assert fresh.encoder.reducer.temperature == pytest.approx(0.1)


@pytest.mark.filterwarnings("error")
def test_whoever_tells_the_progress_is_followed():
    model = training_model().train()
    for tell in (model.set_progress, model.encoder.reducer.set_progress):
        tell(0.5)
        model(batches(1)[0][0])
        assert model.encoder.reducer.temperature == pytest.approx(0.55)
        for wrong in (-0.1, 1.1, float("nan")):
            with pytest.raises(UserError, match=r"progress: .* is outside \[0, 1\]"):
                tell(wrong)
    assert int(model.train_steps) == 0
    steady = timm.create_model(
        NAME, **KWARGS | {"controller": None, "depth": 12}, img_size=32, method="attn_topk"
    ).train()
    steady(batches(1)[0][0])


def test_weights_from_before_the_count_fit():
    model = training_model()
    state = {name: value for name, value in model.state_dict().items() if name != "train_steps"}
    for prefix in ("", "module.", "_orig_mod.", "module._orig_mod.", "model."):
        other = training_model()
        nn.init.zeros_(other.encoder.vit.pos_embed)
        other.load_state_dict({f"{prefix}{name}": value for name, value in state.items()})
        assert torch.equal(other.encoder.vit.pos_embed, model.encoder.vit.pos_embed)
    with pytest.raises(RuntimeError, match="Missing key"):
        training_model().load_state_dict({"head.weight": state["head.weight"]})


def test_the_package_names_its_functions():
    assert {"create_joint_model", "create_model", "wrap", "from_pretrained"} == set(tap.__all__)
    assert all(callable(getattr(tap, name)) for name in tap.__all__)
