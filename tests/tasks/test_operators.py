"""The stand-in for MMCV's compiled operators, beside plain formulas and torchvision."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torchvision

from tap.tasks import openmmlab, operators  # noqa: F401  the first installs the second

if not isinstance(sys.modules.get(operators.NAME), operators._Operators):
    pytest.skip("this MMCV has compiled operators", allow_module_level=True)

from mmcv.ops import RoIAlign, nms  # after the stand-in is there


def boxes(count, seed, grid=1):
    rng = np.random.default_rng(seed)
    corner, size = rng.integers(0, 20, (count, 2)), rng.integers(1, 12, (count, 2))
    return torch.from_numpy(np.concatenate([corner, corner + size], axis=1) / grid).float()


def plain_nms(boxes, scores, threshold, offset):
    """One box after the other, best first."""
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: (-float(scores[i]), i)):
        overlaps = []
        for j in kept:
            (l1, t1, r1, b1), (l2, t2, r2, b2) = boxes[i].double().tolist(), boxes[j].double().tolist()
            wide = max(0.0, min(r1, r2) - max(l1, l2) + offset)
            high = max(0.0, min(b1, b2) - max(t1, t2) + offset)
            areas = [(r1 - l1 + offset) * (b1 - t1 + offset), (r2 - l2 + offset) * (b2 - t2 + offset)]
            overlaps.append(wide * high / (sum(areas) - wide * high))
        if all(overlap <= threshold for overlap in overlaps):
            kept.append(i)
    return kept


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_nms_beside_the_plain_formula(seed, offset):
    found = boxes(40, seed)
    scores = torch.from_numpy(np.random.default_rng(seed).integers(0, 8, 40) / 8).float()  # with ties
    # 0.437 is the overlap of no two boxes with whole corners this small, so that rounding decides nothing.
    kept = operators.nms(found, scores, 0.437, offset)
    assert kept.tolist() == plain_nms(found, scores, 0.437, offset)


def test_nms_through_mmcv_with_a_score_threshold_and_a_most():
    found, scores = boxes(30, 1), torch.linspace(0, 1, 30)
    kept = nms(found, scores, 0.4, score_threshold=0.5, max_num=4)[1]
    assert kept.tolist() == [i for i in plain_nms(found, scores, 0.4, 0) if scores[i] > 0.5][:4]


def test_nms_without_boxes():
    assert operators.nms(torch.zeros(0, 4), torch.zeros(0), 0.5, 0).tolist() == []


def plain_roi_align(feature, roi, size, scale, samples):
    """Mean of bilinear samples on a regular grid of each bin, coordinates shifted by half a pixel."""
    _, height, width = feature.shape
    left, top, right, bottom = (float(value) * scale - 0.5 for value in roi)
    result = np.zeros((feature.shape[0], size, size))
    for i in range(size):
        for j in range(size):
            for a in range(samples):
                for b in range(samples):
                    y = top + (bottom - top) / size * (i + (a + 0.5) / samples)
                    x = left + (right - left) / size * (j + (b + 0.5) / samples)
                    if not (-1 <= y <= height and -1 <= x <= width):
                        continue
                    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
                    y0, x0 = int(y), int(x)
                    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
                    dy, dx = y - y0, x - x0
                    result[:, i, j] += (
                        feature[:, y0, x0] * (1 - dy) * (1 - dx) + feature[:, y0, x1] * (1 - dy) * dx
                        + feature[:, y1, x0] * dy * (1 - dx) + feature[:, y1, x1] * dy * dx
                    )  # fmt: skip
    return result / samples**2


def rois():
    return torch.tensor([[0.0, 1.0, 2.0, 9.0, 13.0], [1.0, 0.0, 0.0, 20.0, 6.5], [1.0, 3.3, 4.1, 5.2, 17.0]])


def test_roi_align_beside_the_plain_formula():
    feature = torch.randn(2, 3, 8, 10, generator=torch.Generator().manual_seed(0))
    pooled = RoIAlign(4, spatial_scale=0.5, sampling_ratio=2)(feature, rois())
    for roi, found in zip(rois(), pooled, strict=True):
        expected = plain_roi_align(feature[int(roi[0])].double().numpy(), roi[1:], 4, 0.5, 2)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_roi_align_and_its_gradient_beside_torchvision(dtype):
    generator = torch.Generator().manual_seed(1)
    feature = torch.randn(2, 3, 8, 10, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(3, 3, 7, 7, generator=generator).to(dtype)
    pooled = RoIAlign(7, spatial_scale=0.5, sampling_ratio=0)(feature, rois().to(dtype))
    (pooled * weight).sum().backward()
    reference = feature.detach().float().requires_grad_()
    expected = torchvision.ops.roi_align(reference, rois().to(dtype).float(), 7, 0.5, 0, True)
    (expected * weight.float()).sum().backward()
    torch.testing.assert_close(pooled.detach(), expected.detach().to(dtype))
    torch.testing.assert_close(feature.grad, reference.grad.to(dtype))


def test_what_is_not_there_raises_when_it_is_called():
    module = sys.modules[operators.NAME]
    with pytest.raises(NotImplementedError, match=r"mmcv\._ext\.softnms is not compiled"):
        module.softnms(1, 2)
    with pytest.raises(NotImplementedError, match="by average only"):
        RoIAlign(2, pool_mode="max")(torch.zeros(1, 1, 4, 4), torch.zeros(1, 5))


def test_it_steps_aside_where_operators_are_there(monkeypatch):
    assert not operators.install()
    monkeypatch.delitem(sys.modules, operators.NAME)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert not operators.install()
    assert operators.NAME not in sys.modules
