"""Formulas of operations beside torch's counter on the models that the tasks build, and beside published sizes."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tap.config import load_scale
from tap.plan import flops
from tap.plan.specs import job_spec
from tap.runs import Run
from tap.tasks.registry import get_task


def counted(call):
    # The fused kernel of a CPU is not counted, so attention is taken apart.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops()


def model_of(task):
    spec = job_spec(load_scale("smoke"), Run("smoke", task, "dense"))
    torch.manual_seed(0)
    return spec, get_task(spec).build_model(spec).eval()


@pytest.mark.parametrize("task", ["cls", "seg", "det"])
def test_an_encoder_without_pruning(task):
    spec, model = model_of(task)
    side = spec.model.image_size
    images = torch.zeros(2, spec.model.channels, side, side)
    found = counted(lambda: model.encoder(images, torch.arange(2))) / 2
    assert flops.encoder_flops(spec.model, flops.rows(spec)) == pytest.approx(found, rel=0.06)


def test_a_segmentation_head():
    spec, model = model_of("seg")
    grid = spec.model.image_size // spec.model.patch_size
    maps = [torch.zeros(1, spec.model.width, grid, grid) for _ in spec.model.read_blocks]
    found = counted(lambda: model.decode_head(maps))
    assert flops.head_flops(spec) == pytest.approx(found, rel=0.02)


def test_the_parts_of_a_detector():
    spec, model = model_of("det")
    grid, detector = spec.model.image_size // spec.model.patch_size, spec.model.detector
    image = torch.zeros(1, spec.model.width, grid, grid)
    found = counted(lambda: model.pyramid(image))
    assert flops.pyramid_flops(spec.model, detector.pyramid_channels) == pytest.approx(found, rel=0.02)
    maps = model.pyramid(image)
    found = counted(lambda: model.rpn_head(maps))
    assert flops.proposal_flops(spec.model, detector) == pytest.approx(found, rel=0.05)
    head, masks = model.roi_head.bbox_head[0], model.roi_head.mask_head[0]
    found = counted(lambda: head(torch.zeros(5, detector.pyramid_channels, 7, 7)))
    assert flops.box_flops(detector, 5, spec.data.num_classes) == pytest.approx(found, rel=0.02)
    found = counted(lambda: masks(torch.zeros(5, detector.pyramid_channels, 14, 14)))
    assert flops.mask_flops(detector, 5, spec.data.num_classes) == pytest.approx(found, rel=0.02)


def test_a_vit_b_has_its_published_operations():
    spec = job_spec(load_scale("paper"), Run("paper", "cls", "dense"))
    assert flops.forward_flops(spec) == pytest.approx(2 * 17.56e9, rel=0.01)  # DeiT-B: 17.6 billion multiply-adds


def test_pruning_ends_with_the_rows_that_are_kept():
    spec = job_spec(load_scale("paper"), Run("paper", "cls", "tap", 0.5))
    counts = flops.rows(spec)
    assert counts[:3] == [198.0] * 3  # 196 patches, class token and register
    assert counts[-1] == pytest.approx(98 + 2)
    masked = job_spec(load_scale("paper"), Run("paper", "cls", "dynamicvit", 0.5))
    assert flops.rows(masked) == [197.0] * 12
    assert flops.rows(masked, training=False)[-1] == pytest.approx(98 + 1)
