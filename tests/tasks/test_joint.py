"""A joint model: one base and two readouts as the same tensors, everything else per task."""

import pytest
import torch
from joint_views import TASKS, View, images_of, joint
from tiny_models import randomise, tiny_encoder

from tap.encoder.low_rank import is_low_rank
from tap.errors import UserError
from tap.tasks.joint import JointModel


def test_base_and_readouts_are_the_same_tensors():
    model = joint()
    cls, seg, det = (model.view(task).encoder for task in TASKS)
    assert cls.vit.blocks[0].attn.qkv.weight is seg.vit.blocks[0].attn.qkv.weight is det.vit.blocks[0].attn.qkv.weight
    assert cls.reducer.controller.allocation is seg.reducer.controller.allocation is det.reducer.controller.allocation
    assert seg.reducer.controller.recovery is det.reducer.controller.recovery
    assert cls.vit.blocks[0].attn.qkv.low_rank_up is not seg.vit.blocks[0].attn.qkv.low_rank_up
    assert not any(parameter.requires_grad for name, parameter in cls.vit.named_parameters() if not is_low_rank(name))


def test_what_a_trunk_has_beyond_the_base_is_trained_and_counted():
    model = joint()
    cls, seg, det = (model.count(task) for task in TASKS)
    updates = 2 * 4 * ((16 + 48) + (16 + 16) + 2 * (16 + 64))
    assert [part.low_rank for part in (cls, seg, det)] == [updates] * 3
    assert [part.register for part in (cls, seg, det)] == [16] * 3
    assert cls.pruning == updates + 16
    assert cls.trunk == 0
    assert seg.trunk == (6 * 6 + 1) * 16  # positions of another grid
    tables = sum(p.numel() for n, p in model.view("det").named_parameters() if "rel_pos" in n)
    assert det.trunk == tables + 16 * 16
    assert cls.readouts == 2 * 17
    trained = {id(p): p.numel() for p in model.parameters() if p.requires_grad}
    everything = sum(part.pruning + part.trunk + part.head for part in (cls, seg, det)) + cls.readouts
    assert sum(trained.values()) == everything


@pytest.mark.parametrize("task", TASKS)
def test_a_step_of_a_task_moves_nothing_of_the_others(task):
    """No gradient, no moments, no weight decay: the optimizer never sees them, and the base keeps its bytes."""
    model = joint().train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, weight_decay=0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    hashes = {name: model.base_hash(name) for name in TASKS}
    model(images_of(model, task), task).square().mean().backward()
    optimizer.step()
    own = {id(p) for n, p in model.view(task).named_parameters() if p.requires_grad}
    recovery = {id(p) for p in model.view("cls").encoder.reducer.controller.recovery.parameters()}
    for name, parameter in model.named_parameters():
        moved = id(parameter) in own and not (task == "cls" and id(parameter) in recovery)
        assert torch.equal(parameter, before[name]) != moved, name
        assert bool(optimizer.state.get(parameter)) == moved, name
    assert hashes == {name: model.base_hash(name) for name in TASKS}


@pytest.mark.parametrize(
    ("register", "adapters"), [("own", "own"), ("shared", "own"), ("own", "shared"), ("shared", "shared")]
)
def test_the_factorial_of_ownership(register, adapters):
    model = joint(register=register, adapters=adapters)
    cls, seg = model.view("cls").encoder, model.view("seg").encoder
    shared = cls.reducer.controller.registers["cls"] is seg.reducer.controller.registers["seg"]
    assert shared == (register == "shared")
    ours, theirs = (dict(encoder.vit.named_parameters()) for encoder in (cls, seg))
    assert {ours[name] is theirs[name] for name in ours if is_low_rank(name)} == {adapters == "shared"}
    for task in TASKS:
        model(images_of(model, task), task)


@torch.no_grad()
@pytest.mark.parametrize("task", TASKS)
def test_a_single_merged_task_gives_the_same_answers(task):
    model = joint().eval()
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if is_low_rank(name):
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    images = images_of(model, task)
    expected = model(images, task)
    alone = model.single(task)
    torch.testing.assert_close(alone(images), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(model(images, task), expected)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: JointModel({"cls": View("cls")}), "at least two"),
        (lambda: joint().view("depth"), "'depth' is not one of this model's"),
        (lambda: JointModel({"cls": View("cls"), "seg": randomised(View("seg"))}), "other values in"),
        (lambda: JointModel({"cls": View("cls"), "seg": without_updates(View("seg"))}), "no low-rank updates"),
    ],
)
def test_refusals(build, words):
    with pytest.raises(UserError, match=words):
        build()


def randomised(view):
    randomise(view.encoder.vit, 99)
    return view


def without_updates(view):
    view.encoder = tiny_encoder("tap", 0.5, reads=(4,))
    return view
