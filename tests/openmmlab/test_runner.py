"""The configurations under `configs/`: what they say, and that MMEngine's runner trains, resumes and tests each."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

import tap.openmmlab
from tap.config import load_scale
from tap.reducers.base import Reducer

FOLDER = Path(__file__).parents[2] / "configs"
CONFIGS = sorted(FOLDER.glob("*/tap-*.py"))
BACKBONE = {"image_size": 64, "patch_size": 8, "width": 16, "heads": 2}
TRUNK = BACKBONE | {
    "image_size": 128,
    "patch_size": 16,
    "class_token": False,
    "window": 4,
    "global_blocks": (3, 6, 9, 12),
    "rel_pos": True,
}
TRUNK |= {"position_grid": 4}
STEPS = 4


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


def tiny(path, root, work):
    """The configuration with a small model, on a small data set, for a few steps on a CPU."""
    config = Config.fromfile(path)
    config.work_dir, config.device = str(work), "cpu"
    config.env_cfg.dist_cfg.backend = "gloo"
    config.default_hooks.checkpoint = {"type": "CheckpointHook", "by_epoch": False, "interval": 2}
    config.default_hooks.pop("visualization", None)
    config.log_level = "WARNING"
    for loader in (config.train_dataloader, config.val_dataloader, config.test_dataloader):
        loader.num_workers, loader.persistent_workers = 0, False
    config.train_dataloader.batch_size = 2
    config.train_cfg = {"type": "IterBasedTrainLoop", "max_iters": STEPS, "val_interval": STEPS}
    config.param_scheduler = [{"type": "ConstantLR", "factor": 1.0, "by_epoch": False}]
    backbone = config.model.backbone
    backbone.pop("init_cfg")
    (tiny_segmentation if backbone.task == "seg" else tiny_detection)(config, root)
    return config


def tiny_segmentation(config, root):
    config.model.backbone.model = BACKBONE
    config.model.data_preprocessor.size = (64, 64)
    config.model.test_cfg = {"mode": "slide", "crop_size": (64, 64), "stride": (40, 40)}
    for part in ("decode_head", "auxiliary_head"):
        head = config.model.get(part)
        if head is None:
            continue
        head.in_channels = 16 if part == "auxiliary_head" else [16] * 4
        head.update(channels=8, num_classes=4)
        head.update({"sync": False} if head.type == "GridMLPHead" else {"norm_cfg": {"type": "BN"}})
    if "neck" in config.model:
        config.model.neck.update(embed_dim=16, norm_cfg={"type": "BN"})
    for loader in (config.train_dataloader, config.val_dataloader, config.test_dataloader):
        loader.dataset.update(
            data_root=str(root), type="BaseSegDataset", metainfo={"classes": list("abcd")}, reduce_zero_label=True
        )
        for step in loader.dataset.pipeline:
            if step.type in ("RandomResize", "Resize"):
                step.scale = (256, 64)
            if step.type == "RandomCrop":
                step.crop_size = (64, 64)


def tiny_detection(config, root):
    config.model.backbone.model = TRUNK
    config.model.data_preprocessor.batch_augments[0].size = (128, 128)
    config.model.neck.update(in_channels=16, out_channels=8)
    config.model.rpn_head.update(in_channels=8, feat_channels=8)
    roi = config.model.roi_head
    roi.bbox_roi_extractor.out_channels = roi.mask_roi_extractor.out_channels = 8
    boxes = roi.bbox_head if isinstance(roi.bbox_head, list) else [roi.bbox_head]
    for head in boxes:
        head.update(in_channels=8, conv_out_channels=8, fc_out_channels=16, num_classes=2)
    roi.mask_head.update(in_channels=8, conv_out_channels=8, num_classes=2)
    train, test = config.model.train_cfg, config.model.test_cfg
    for stage in train.rcnn if isinstance(train.rcnn, list) else [train.rcnn]:
        stage.sampler.num = 8
    train.rpn_proposal.update(nms_pre=30, max_per_img=20)
    test.rpn.update(nms_pre=30, max_per_img=20)
    test.rcnn.update(score_thr=0.0, max_per_img=10)  # an untrained head is sure of nothing
    config.val_evaluator.ann_file = config.test_evaluator.ann_file = str(root / "annotations/instances_val2017.json")
    train = config.train_dataloader.dataset.dataset
    for dataset in (train, config.val_dataloader.dataset, config.test_dataloader.dataset):
        dataset.update(data_root=str(root), metainfo={"classes": ("block", "triangle")})
        for step in dataset.pipeline:
            if step.type in ("RandomResize", "Resize"):
                step.scale = (128, 128)
            if step.type == "RandomCrop":
                step.crop_size = (128, 128)
    train.filter_cfg = {"filter_empty_gt": True, "min_size": 4}


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_runner_trains_tests_and_resumes(path, ade_root, coco_root, tmp_path):
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
    again = Runner.from_cfg(config)
    again.train()
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
