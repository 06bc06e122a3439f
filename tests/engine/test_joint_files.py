"""Files of a joint model: a base and small task files that fit it and nothing else."""

import pytest
import torch
from joint_views import TASKS, View, images_of, joint

from tap.engine.joint_files import load_base, load_task, save_base, save_task
from tap.errors import UserError
from tap.tasks.joint import JointModel


def trained(seed=1):
    """A joint model whose trained parts are drawn at random; its base is that of every other one."""
    model = joint()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@torch.no_grad()
def test_what_was_saved_in_parts_gives_the_same_answers(tmp_path):
    model, other = trained(), joint().eval()
    randomise_base(other)
    save_base(model, tmp_path / "base.safetensors")
    load_base(other, tmp_path / "base.safetensors")
    for number, task in enumerate(TASKS):
        save_task(model, task, tmp_path / f"{task}.safetensors", {"run": "a"})
        load_task(other, task, tmp_path / f"{task}.safetensors", first=number == 0)
    for task in TASKS:
        images = images_of(model, task)
        assert torch.equal(model(images, task), other(images, task))
    sizes = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["cls"] < sizes["base"]


@torch.no_grad()
def test_a_task_can_join_a_model_of_fewer_tasks(tmp_path):
    model, pair = trained(), joint(("cls", "seg")).eval()
    for number, task in enumerate(("seg", "cls")):
        save_task(model, task, tmp_path / "task.safetensors")
        load_task(pair, task, tmp_path / "task.safetensors", first=number == 0)
    assert torch.equal(model(images_of(model, "seg"), "seg"), pair(images_of(model, "seg"), "seg"))


def other_base(model):
    randomise_base(model)
    return model


def randomise_base(model):
    with torch.no_grad():
        for tensor in model.base().values():
            tensor.add_(0.1)


def narrower(rank):
    from tap.encoder.low_rank import adapted, add_low_rank, merge_low_rank

    views = {task: View(task) for task in ("cls", "seg")}
    for view in views.values():
        merge_low_rank(view.encoder.vit)
        add_low_rank(view.encoder.vit, rank, 2.0)
        assert next(adapted(view.encoder.vit))
    own = views["seg"].encoder.vit.state_dict()
    first = views["cls"].encoder.vit.state_dict()
    fitting = {n: v for n, v in first.items() if n in own and own[n].shape == v.shape}
    views["seg"].encoder.vit.load_state_dict({**own, **fitting})
    return JointModel(views)


@pytest.mark.parametrize(
    ("build", "task", "words"),
    [
        (lambda: other_base(joint()), "cls", "its base backbone is"),
        (lambda: joint(), "seg", "its task is cls"),
        (lambda: narrower(3), "cls", "its rank of the updates is 2"),
        (lambda: trained(2), "cls", "comes from another training"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_nothing_changes(tmp_path, build, task, words):
    path = save_task(trained(), "cls", tmp_path / "cls.safetensors")
    model = build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(UserError, match=words):
        load_task(model, task, path)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_damaged_and_foreign_files_are_refused(tmp_path):
    model = trained()
    path = save_task(model, "cls", tmp_path / "cls.safetensors")
    with pytest.raises(UserError, match="is expected"):
        load_task(model, "cls", path, sha256="0" * 64)
    base = save_base(model, tmp_path / "base.safetensors")
    with pytest.raises(UserError, match="no file of one task"):
        load_task(model, "cls", base)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="cut off or damaged"):
        load_task(model, "cls", path)
