import pytest
import torch
from mmengine.registry import MODELS as ROOT
from mmengine.structures import PixelData
from mmseg.registry import MODELS
from torch import nn

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get
from tap.tasks.segmentation.head import GridMLPHead
from tap.tasks.segmentation.mmseg_parts import SegDataSample
from tap.tasks.segmentation.model import SAMPLE_ID, Segmenter
from tap.tasks.segmentation.task import Segmentation

READS = {"read_blocks": (3, 6, 9, 12), "head_channels": 8}


@pytest.fixture
def build(seg_spec):
    """A segmenter of width 16; keyword arguments change the job."""

    def make(method="dense", rate=1.0, evaluation=None, recovery=None, **changes):
        spec = seg_spec(model=READS, evaluation=evaluation)
        settings = spec.recovery.model_copy(update=recovery or {})
        changes = {"method": method, "rate": rate, "static_split": (26.8, 33.4, 39.8), "recovery": settings} | changes
        return Segmentation().build_model(spec.model_copy(update=changes)).eval()

    return make


def samples_of(labels):
    samples = []
    for number, label in enumerate(labels):
        samples.append(SegDataSample(metainfo={SAMPLE_ID: number}))
        samples[-1].gt_sem_seg = PixelData(data=label[None])
    return samples


def test_vit_b_at_512_with_150_classes_has_the_papers_87_5_million_parameters():
    with torch.device("meta"):
        vit = build_vit(ModelConfig(timm_name="vit_base_patch16_224.mae", image_size=512, patch_size=16))
        vit.norm = nn.Identity()
        encoder = SparseEncoder(vit, get("dense")(ReducerSettings(width=768, depth=12)), (3, 6, 9, 12))
        model = Segmenter(encoder, GridMLPHead([768] * 4, 256, num_classes=150))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert f"{parameters / 1e6:.1f}M" == "87.5M"
    head = sum(parameter.numel() for parameter in model.decode_head.parameters())
    assert head == 4 * (2 * 768 + 769 * 256) + 4 * 256 * 256 + 2 * 256 + 257 * 150


def test_every_parameter_of_a_job_is_trained(build):
    model = build("tap", 0.5).train()
    loss = model(torch.randn(2, 3, 32, 32), samples_of(torch.randint(0, 4, (2, 32, 32))), mode="loss")
    loss["decode.loss_ce"].backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("registry", [ROOT, MODELS], ids=["mmengine", "mmseg"])
def test_mmsegmentation_builds_the_head_from_its_name(registry):
    head = registry.build({"type": "GridMLPHead", "in_channels": [6, 10], "channels": 4, "num_classes": 3}).eval()
    assert head([torch.randn(2, 6, 5, 7), torch.randn(2, 10, 5, 7)]).shape == (2, 3, 5, 7)


def test_the_head_looks_at_one_position_at_a_time():
    torch.manual_seed(0)
    head = GridMLPHead([6, 6], 4, num_classes=3).eval()
    maps = [torch.randn(1, 6, 4, 5) for _ in range(2)]
    before = head(maps)
    maps[1][0, 0, 2, 3] += 10.0  # not all channels alike, which the LayerNorm would take out
    changed = (head(maps) != before).any(dim=1)[0]
    assert changed.nonzero().tolist() == [[2, 3]]


def test_levels_of_another_scale_give_the_same_logits():
    torch.manual_seed(0)
    head = GridMLPHead([6], 4, num_classes=3).eval()
    grid = torch.randn(1, 6, 4, 5)
    torch.testing.assert_close(head([grid]), head([1000 * grid + 7]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [(32, 32), (24, 56), (8, 40)])
@pytest.mark.parametrize("method", ["dense", "tap"])
def test_maps_are_the_grids_row_by_row(build, size, method):
    model = build(method, 1.0 if method == "dense" else 0.5)
    images = torch.randn(2, 3, *size)
    output = model.encoder(images)
    maps = model.extract_feat(images)
    assert len(maps) == 4
    for grid, level in zip(output.grids, maps, strict=True):
        assert level.shape == (2, 16, size[0] // 8, size[1] // 8)
        torch.testing.assert_close(level[:, :, -1, 0], grid[:, (size[0] // 8 - 1) * (size[1] // 8)], rtol=0, atol=0)


@pytest.mark.parametrize("method", ["tap", "random", "static", "attn_topk"])
def test_with_keep_rate_1_the_logits_are_those_of_no_pruning(build, method):
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(build(method, 1.0).infer(images), build("dense").infer(images), rtol=0, atol=0)


def test_the_head_of_a_seed_is_the_same_for_all_methods(build):
    heads = [build(method, rate, seed=5).decode_head.state_dict() for method, rate in (("tap", 0.5), ("dense", 1.0))]
    assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[1])
    assert not torch.equal(build(seed=6).decode_head.conv_seg.weight, heads[0]["conv_seg.weight"])


def test_the_loss_is_the_cross_entropy_of_the_resized_logits_and_void_counts_as_zero(build):
    model = build()
    model.decode_head.dropout.p = 0.0
    images, labels = torch.randn(2, 3, 32, 32), torch.randint(0, 4, (2, 32, 32))
    labels[0, :20] = 255
    losses = model(images, samples_of(labels), mode="loss")
    logits = model.infer(images)
    expected = nn.functional.cross_entropy(logits, labels, ignore_index=255, reduction="sum") / labels.numel()
    torch.testing.assert_close(losses["decode.loss_ce"], expected)
    known = labels != 255
    right = (logits.argmax(dim=1) == labels)[known].float().mean() * 100
    torch.testing.assert_close(losses["decode.acc_seg"].squeeze(), right)


def test_a_batch_of_void_pixels_has_no_gradient(build):
    model = build("tap", 0.5).train()
    losses = model(torch.randn(2, 3, 32, 32), samples_of(torch.full((2, 32, 32), 255)), mode="loss")
    losses["decode.loss_ce"].backward()
    assert losses["decode.loss_ce"].item() == 0.0
    assert all((parameter.grad == 0).all() for parameter in model.parameters() if parameter.grad is not None)


def test_sample_ids_reach_the_random_draws(build):
    model = build("random", 0.5)
    image = torch.randn(1, 3, 32, 32).expand(2, -1, -1, -1)
    logits = model.encode_decode(image, [{SAMPLE_ID: 3}, {SAMPLE_ID: torch.tensor(4)}])
    assert not torch.equal(logits[0], logits[1])
    same = model.encode_decode(image, [{SAMPLE_ID: 4}, {SAMPLE_ID: 3}])
    torch.testing.assert_close(logits, same.flip(0), rtol=1e-4, atol=1e-5)


def test_settings_of_recovery_reach_the_model(build):
    assert build("tap", 0.5).encoder.recovery.scale == "learned"
    assert build("tap", 0.5, recovery={"scale": 0.25}).encoder.recovery.scale == 0.25
    assert build("random", 0.5).encoder.recovery.scale == 1.0
    assert build("random", 0.5, recovery={"endpoint": 0.0}).encoder.recovery.scale == 0.0
    images = torch.randn(1, 3, 32, 32)
    outcomes = [
        build("static", 0.5, recovery=recovery).infer(images)
        for recovery in ({}, {"endpoint": 0.0}, {"zero_fill": True}, {"matching": "spatial"}, {"matching": "random"})
    ]
    for first in range(len(outcomes)):
        for second in range(first):
            assert not torch.equal(outcomes[first], outcomes[second])


def test_a_head_without_a_block_to_read_is_refused(seg_spec):
    with pytest.raises(UserError, match="read_blocks"):
        Segmentation().build_model(seg_spec())
