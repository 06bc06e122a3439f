"""`TapViT` in MMSegmentation and MMDetection: equal to the project's own pipelines bit for bit, and what it refuses."""

import mmdet.registry
import mmseg.registry
import pytest
import torch
from mmdet.structures import DetDataSample
from mmengine.config import ConfigDict
from mmengine.structures import PixelData
from safetensors.torch import save_file

from tap.errors import UserError
from tap.openmmlab import GridMLPHead, MAETapViT, TapFeaturePyramid
from tap.tasks.detection.settings import head_settings
from tap.tasks.detection.task import Detection
from tap.tasks.segmentation.mmseg_parts import SegDataSample
from tap.tasks.segmentation.task import Segmentation

SIZES = {"image_size": 32, "patch_size": 8, "width": 16, "heads": 2}
TRUNK = SIZES | {"class_token": False, "window": 2, "global_blocks": (3, 6, 9, 12), "rel_pos": True}


def backbone(**changes):
    return {"type": "TapViT", "model": SIZES, "task": "seg"} | changes


@pytest.mark.parametrize("registry", [mmseg.registry.MODELS, mmdet.registry.MODELS])
def test_both_packages_know_the_names(registry):
    names = {"TapViT": MAETapViT, "TapFeaturePyramid": TapFeaturePyramid, "GridMLPHead": GridMLPHead}
    assert {name: registry.get(name) for name in names} == names


@pytest.mark.parametrize("method", ["tap", "static", "tome"])
def test_a_segmenter_of_mmseg_is_ours_bit_for_bit(seg_spec, method):
    spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    changes = {"method": method, "rate": 0.5, "static_split": (26.8, 33.4, 39.8)}
    changes["recovery"] = spec.recovery.model_copy(update={"endpoint": 1.0})
    ours = Segmentation().build_model(spec.model_copy(update=changes))
    head = {"type": "GridMLPHead", "in_channels": [16] * 4, "channels": 8, "num_classes": 4}
    theirs = mmseg.registry.MODELS.build(
        {
            "type": "EncoderDecoder",
            "backbone": backbone(method=method),
            "decode_head": head,
            "train_cfg": {},
            "test_cfg": {"mode": "whole"},
        }
    )
    state = ours.state_dict()
    theirs.load_state_dict(
        {name if name.startswith("decode_head") else f"backbone.{name}": value for name, value in state.items()}
    )
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = ours.eval().infer(images)
        found = theirs.eval().encode_decode(images, [{"img_shape": (32, 32)}] * 2)
    assert torch.equal(found, expected)
    samples = [SegDataSample() for _ in images]
    for sample in samples:
        sample.gt_sem_seg = PixelData(data=torch.ones(1, 32, 32, dtype=torch.int64))
    losses = []
    for model in (ours, theirs):
        torch.manual_seed(0)  # of the dropout and of TAP's noise
        losses.append(model.train()(images, samples, mode="loss")["decode.loss_ce"])
    assert torch.equal(*losses)


def test_a_detector_of_mmdet_is_ours_bit_for_bit(det_spec):
    spec = det_spec().model_copy(update={"method": "tap", "rate": 0.5})
    ours = Detection().build_model(spec)
    heads = head_settings(spec.model.detector, 2, 8)
    rpn, roi = heads.rpn_head.copy(), heads.roi_head.copy()
    train = {"rpn": rpn.pop("train_cfg"), "rcnn": roi.pop("train_cfg"), "rpn_proposal": heads.training_proposals}
    test = {"rpn": rpn.pop("test_cfg"), "rcnn": roi.pop("test_cfg")}
    theirs = mmdet.registry.MODELS.build(
        {
            "type": "CascadeRCNN",
            "backbone": backbone(model=TRUNK, task="det", out_indices=(11,)),
            "neck": {"type": "TapFeaturePyramid", "in_channels": 16, "out_channels": 8},
            "rpn_head": rpn,
            "roi_head": roi,
            "train_cfg": ConfigDict(train),
            "test_cfg": ConfigDict(test),
        }
    )
    names = {"encoder": "backbone.encoder", "pyramid": "neck"}
    state = {
        ".".join([names.get(name.split(".")[0], name.split(".")[0]), *name.split(".")[1:]]): value
        for name, value in ours.state_dict().items()
    }
    theirs.load_state_dict(state)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    meta = {"img_shape": (32, 32), "ori_shape": (32, 32), "scale_factor": (1.0, 1.0)}
    with torch.no_grad():
        expected = ours.eval().infer(images)
        found = theirs.eval().predict(images, [DetDataSample(metainfo=meta) for _ in images], rescale=False)
    for sample, instances in zip(found, expected, strict=True):
        assert len(instances.scores)
        for name in ("bboxes", "scores", "labels", "masks"):
            assert torch.equal(torch.as_tensor(sample.pred_instances[name]), torch.as_tensor(instances[name])), name


def test_layer_decay_of_mmseg_reaches_every_block():
    model = mmseg.registry.MODELS.build(
        {
            "type": "EncoderDecoder",
            "backbone": backbone(),
            "decode_head": {"type": "GridMLPHead", "in_channels": [16] * 4, "channels": 8, "num_classes": 4},
        }
    )
    wrapper = {
        "type": "OptimWrapper",
        "optimizer": {"type": "AdamW", "lr": 1.0},
        "constructor": "LearningRateDecayOptimizerConstructor",
        "paramwise_cfg": {"num_layers": 12, "decay_rate": 0.5, "decay_type": "layer_wise"},
    }
    config = dict(wrapper)
    constructor = mmseg.registry.OPTIM_WRAPPER_CONSTRUCTORS.build(
        {"type": config.pop("constructor"), "optim_wrapper_cfg": config, "paramwise_cfg": config.pop("paramwise_cfg")}
    )
    groups = constructor(model).optimizer.param_groups
    rates = {name: group["lr"] for group in groups for name in group["param_names"]}
    assert len(rates) == len(list(model.parameters()))
    assert rates["backbone.pos_embed"] == rates["backbone.patch_embed.proj.weight"] == 0.5**13
    for block in range(12):
        assert rates[f"backbone.layers.{block}.mlp.fc1.weight"] == 0.5 ** (12 - block)
    others = [name for name in rates if name.startswith(("backbone.encoder.reducer", "decode_head"))]
    assert others
    assert {rates[name] for name in others} == {1.0}


def test_weights_are_saved_once_and_read_back():
    one, two = (MAETapViT(SIZES, "seg") for _ in range(2))
    state = one.state_dict()
    assert all(name.startswith("encoder.") for name in state)
    two.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert two.layers is two.encoder.vit.blocks
    assert two.pos_embed is two.encoder.vit.pos_embed


def test_a_run_of_the_project_starts_a_backbone(tmp_path):
    source = MAETapViT(SIZES, "seg")
    torch.nn.init.normal_(source.encoder.reducer.controller.registers["seg"])
    file = tmp_path / "model.safetensors"
    save_file(source.state_dict(), file)
    model = MAETapViT(SIZES, "seg", init_cfg={"type": "Pretrained", "checkpoint": str(file)})
    model.init_weights()
    assert torch.equal(
        model.encoder.reducer.controller.registers["seg"], source.encoder.reducer.controller.registers["seg"]
    )
    with pytest.raises(UserError, match=r"model\.safetensors: its sha256 is \w+, but 00 is expected"):
        MAETapViT(SIZES, "seg", init_cfg={"type": "Pretrained", "checkpoint": str(file), "sha256": "00"}).init_weights()
    with pytest.raises(UserError, match=r"model\.safetensors: is a run of another model or method"):
        MAETapViT(
            SIZES, "seg", method="static", init_cfg={"type": "Pretrained", "checkpoint": str(file)}
        ).init_weights()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "cls"}, "task: 'cls' reads no maps"),
        ({"task": "depth"}, "task: 'depth' is not known"),
        ({"method": "dtop"}, "method: 'dtop'"),
        ({"method": "cropr"}, "method: 'cropr' has a loss or a threshold of its own"),
        ({"keep_rate": 0.0}, r"keep_rate: 0\.0 is outside"),
        ({"out_indices": (12,)}, r"model\.read_blocks: \[13\] are not blocks"),
        ({"model": {"image_size": 32, "patch_size": 7}}, "image_size 32 is not a multiple of patch_size 7"),
        ({"model": SIZES | {"depht": 3}}, "depht"),
        ({"init_cfg": {"type": "Normal"}}, "init_cfg: give dict"),
    ],
)
def test_what_cannot_be_a_backbone_is_refused(changes, message):
    given = backbone(**changes)
    given.pop("type")
    with pytest.raises(UserError, match=message):
        MAETapViT(**given).init_weights()


def test_a_neck_reads_one_map():
    with pytest.raises(UserError, match="reads one map, not 2"):
        TapFeaturePyramid(8, 4)([torch.zeros(1, 8, 2, 2)] * 2)


def test_a_training_that_nobody_tells_its_progress_is_warned_once():
    model = MAETapViT(SIZES, "seg").train()
    with pytest.warns(UserWarning, match="TapProgressHook"):
        model(torch.zeros(1, 3, 32, 32))


def test_images_of_another_size_are_read():
    """Images of another size than the model's: any multiple of the patch."""
    maps = MAETapViT(SIZES, "seg").eval()(torch.zeros(1, 3, 48, 24))
    assert [tuple(level.shape) for level in maps] == [(1, 16, 6, 3)] * 4
