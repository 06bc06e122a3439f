"""What methods keep of single images, against passes of their own."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tap.errors import UserError
from tap.studies import kept_patches as module
from tap.tasks.registry import get_task


def test_every_method_is_asked_about_the_same_images(cls_spec, monkeypatch):
    base = cls_spec()
    specs = [base.model_copy(update={"method": method, "rate": 0.5}) for method in ("tap", "tome")]
    monkeypatch.setattr(module, "load_run", lambda spec, model: [Path(f"{spec.method}.safetensors")])
    found = module.kept_patches(specs, count=3)
    task = get_task(base)
    split = task.datasets(base).validation
    assert [image.number for image in found.images] == [0, round((len(split) - 1) / 2), len(split) - 1]
    assert [(method.method, method.merges) for method in found.methods] == [("tap", False), ("tome", True)]
    assert [one.method for one in found.pictured.methods] == ["tap"], "ToMe is not in the paper's figure"
    assert found.pictured.number == found.images[0].number
    assert [path.name for path in found.read] == ["tap.safetensors", "tome.safetensors"]
    model = task.build_model(specs[0]).eval()
    image = found.images[1]
    sample = split[image.number]
    with torch.inference_mode():
        trace = model.encoder(sample.image[None], torch.tensor([image.number]), return_trace=True).trace
    kept = found.methods[0].kept[1]
    assert kept.keys() == trace.kept.keys() == {3, 6, 9}
    assert all(np.array_equal(kept[layer], trace.kept[layer][0].numpy()) for layer in kept)
    assert kept[9].sum() == 32
    assert image.grid == (8, 8)
    expected = (sample.image * 0.35 + 0.3).clamp(0, 1)[0].numpy() * 255
    assert np.abs(image.pixels[..., 1] - expected).max() <= 0.51


def test_without_methods_there_is_nothing_to_show():
    with pytest.raises(UserError, match="kept: the scale has no method beside no pruning"):
        module.kept_patches([])
