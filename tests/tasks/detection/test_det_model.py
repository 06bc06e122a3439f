"""The pyramid and the heads: shapes, settings, losses, and detections that depend on their own image alone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tap.config import load_scale
from tap.config.detector import DetectorConfig
from tap.errors import UserError
from tap.tasks.base import Item
from tap.tasks.detection.pyramid import ChannelLayerNorm, SimpleFeaturePyramid
from tap.tasks.detection.settings import head_settings
from tap.tasks.detection.task import Detection
from tap.tasks.registry import get_task


@pytest.fixture
def job(det_spec):
    """A task, its model and its settings."""

    def make(method="dense", rate=1.0, model=None, **data):
        spec = det_spec(model=model, **data).model_copy(update={"method": method, "rate": rate})
        task = get_task(spec)
        assert isinstance(task, Detection)
        return task, task.build_model(spec), spec

    return make


def test_channel_layer_norm_is_that_of_each_position():
    norm = ChannelLayerNorm(6)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    norm.requires_grad_(False)
    x = torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(0))
    y = norm(x)
    for b, i, j in ((0, 0, 0), (1, 2, 3)):
        column = x[b, :, i, j].double()
        plain = (column - column.mean()) / (column.var(correction=0) + 1e-6).sqrt()
        torch.testing.assert_close(
            y[b, :, i, j].double(), plain * norm.weight.double() + norm.bias.double(), rtol=1e-5, atol=1e-6
        )


def test_levels_of_the_pyramid():
    pyramid = SimpleFeaturePyramid(16, 8)
    maps = pyramid(torch.randn(1, 16, 6, 4))
    assert [tuple(level.shape[1:]) for level in maps] == [(8, 24, 16), (8, 12, 8), (8, 6, 4), (8, 3, 2), (8, 2, 1)]
    assert torch.equal(maps[4], F.max_pool2d(maps[3], 1, stride=2))


def test_the_public_recipe_is_the_default():
    heads = head_settings(DetectorConfig(), 80, 16)
    assert heads.rpn_head.anchor_generator.strides == [4, 8, 16, 32, 64]
    assert heads.rpn_head.num_convs == 2
    assert heads.roi_head.num_stages == 3
    for head in heads.roi_head.bbox_head:
        assert (head.num_shared_convs, head.num_shared_fcs, head.fc_out_channels) == (4, 1, 1024)
        assert head.reg_class_agnostic
        assert head.norm_cfg.type == "ChannelLayerNorm"
    assert [stage.assigner.pos_iou_thr for stage in heads.roi_head.train_cfg] == [0.5, 0.6, 0.7]
    assert [stage.sampler.num for stage in heads.roi_head.train_cfg] == [512] * 3
    assert (heads.training_proposals.nms_pre, heads.training_proposals.max_per_img) == (2000, 1000)
    assert heads.rpn_head.test_cfg.nms_pre == heads.rpn_head.test_cfg.max_per_img == 1000
    assert heads.roi_head.test_cfg.max_per_img == 100
    assert heads.roi_head.bbox_roi_extractor.finest_scale == 56
    assert head_settings(DetectorConfig(ignore_overlap=0.5), 3, 8).rpn_head.train_cfg.assigner.ignore_iof_thr == 0.5


def test_the_paper_scale_is_the_public_recipe():
    assert load_scale("paper").tasks["det"].model.detector == DetectorConfig()


def test_losses_of_all_stages_reach_every_parameter(job):
    task, model, spec = job("tap", 0.5)
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(3)])
    loss, parts = task.loss(model.train(), batch, 0.0)
    assert float(sum(parts.values())) == pytest.approx(float(loss.detach()), rel=1e-5)
    assert all(float(value) > 0 for value in parts.values())
    loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(("method", "term"), [("svit", "ratio"), ("cropr", "auxiliary_3")])
def test_terms_of_a_method_reach_the_loss_and_its_own_weights(job, reaches_own_weights, method, term):
    task, model, spec = job(method, 0.5)
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(2)])
    reaches_own_weights(task, model, batch, term)


def test_the_stages_learn_the_classes(job, monkeypatch):
    """The proposals know one class only; that must not reach the box heads."""
    task, model, spec = job()
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(3)])
    seen, loss = [], type(model.roi_head).loss

    def spy(self, maps, proposals, samples):
        seen.extend(sample.gt_instances.labels.tolist() for sample in samples)
        return loss(self, maps, proposals, samples)

    monkeypatch.setattr(type(model.roi_head), "loss", spy)
    task.loss(model.train(), batch, 0.0)
    assert seen == [target["labels"].tolist() for target in batch.targets] == [[0, 1]] * 3


@pytest.mark.slow
def test_the_loss_falls_on_one_batch(job):
    task, model, spec = job()
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(4)])
    optimizer = torch.optim.AdamW(model.train().parameters(), 3e-3)
    losses = []
    for step in range(25):
        torch.manual_seed(step)
        loss, _ = task.loss(model, batch, 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:3])


def test_bfloat16(job):
    task, model, spec = job()
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(2)])
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = task.loss(model.train(), batch, 0.0)
    loss.backward()
    assert torch.isfinite(loss)


def test_images_without_objects_are_trained_on(job):
    task, model, spec = job()
    train = task.datasets(spec).train
    batch = task.collate(spec, True)([train[Item(i, i + 1)] for i in range(2)])
    for target in batch.targets:
        target.update(
            boxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.int64), masks=target["masks"][np.zeros(0, int)]
        )
    loss, _ = task.loss(model.train(), batch, 0.0)
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize(("method", "rate"), [("dense", 1.0), ("tap", 0.5), ("random", 0.5)])
def test_detections_do_not_depend_on_the_batch(job, method, rate):
    task, model, spec = job(method, rate)
    validation = task.datasets(spec).validation
    samples = [validation[i] for i in range(3)]
    model.eval()
    with torch.inference_mode():
        whole = task.evaluate_batch(model, spec, task.collate(spec, False)(samples))
        for number, sample in enumerate(samples):
            alone = task.evaluate_batch(model, spec, task.collate(spec, False)([sample]))
            for name, values in alone.items():
                np.testing.assert_allclose(values[0], whole[name][number], rtol=1e-4, atol=1e-4, err_msg=name)
    assert (whole["labels"] >= 0).any()


def test_an_evaluation_and_what_is_behind_it(job):
    task, model, spec = job("random", 0.5)
    found = task.evaluate(model, spec, "validation", torch.device("cpu"))
    assert found.per_sample["sample_id"].tolist() == [0, 1, 2]
    assert found.per_sample["objects"][:, 0].tolist() == [[1, 1], [1, 1], [0, 0]]  # without the crowds
    assert found.metrics["final_tokens_mean"] == 8
    assert {"box_ap", "mask_ap", "box_ap50", "mask_ap75", "box_ap_small"} <= found.metrics.keys()
    assert "box_ap_large" not in found.metrics
    assert found.metrics["recovery_endpoint"] == 1.0
    assert "boxes" not in task.sufficient_statistics(found.per_sample)
    again = task.evaluate(model, spec, "validation", torch.device("cpu"))
    for name, values in found.per_sample.items():
        np.testing.assert_array_equal(values, again.per_sample[name])


def test_the_full_model_in_one_pass(job):
    _, model, _ = job("tap", 0.5)
    model.eval()
    with torch.inference_mode():
        found = model.infer(torch.randn(2, 3, 32, 32), torch.tensor([3, 4]))
    assert len(found) == 2
    assert found[0].masks.shape[1:] == (32, 32)


def test_the_heads_of_a_seed_are_those_of_all_methods(job):
    first, second = (
        {name: value for name, value in job(*method)[1].state_dict().items() if not name.startswith("encoder.")}
        for method in (("dense", 1.0), ("tap", 0.5))
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize(
    ("model", "message"),
    [({"detector": None}, r"model\.detector: is missing"), ({"read_blocks": (3, 12)}, r"give \[12\]")],
)
def test_settings_that_make_no_detector(job, model, message):
    with pytest.raises(UserError, match=message):
        job(model=model)
