"""The configurations under `configs/` with a small model, on a small data set, for a few steps on a CPU."""

from mmengine.config import Config
from mmengine.optim.optimizer import amp_optimizer_wrapper

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


def mixed_precision(config):
    """MMEngine's own mixed precision. Its wrapper asks for a graphics card before it does what a CPU can do as well."""
    amp_optimizer_wrapper.is_cuda_available = lambda: True
    config.optim_wrapper.update(type="AmpOptimWrapper", dtype="bfloat16")


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
