# ViTDet-B with a register for detection at 1024 x 1024, and the training of tab:training-config.
_base_ = "mmdet::common/lsj-100e_coco-instance.py"

custom_imports = dict(imports=["tap.openmmlab"], allow_failed_imports=False)
custom_hooks = [dict(type="TapProgressHook")]

data_preprocessor = dict(
    type="DetDataPreprocessor",
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    bgr_to_rgb=True,
    pad_mask=True,
    pad_size_divisor=32,
    batch_augments=[dict(type="BatchFixedSizePad", size=(1024, 1024), img_pad_value=0, pad_mask=True)],
)
backbone = dict(
    _delete_=True,  # of the base model's backbone nothing stays, and nothing of its neck
    type="TapViT",
    model=dict(
        timm_name="vit_base_patch16_224.mae",
        image_size=1024,
        patch_size=16,
        drop_path=0.1,
        class_token=False,
        window=14,
        global_blocks=(3, 6, 9, 12),
        rel_pos=True,
        position_grid=14,
    ),
    task="det",
    keep_rate=0.5,
    out_indices=(11,),
    # The public MAE weights of ViT-B; get the file and pin its sha256 here.
    init_cfg=dict(type="Pretrained", checkpoint="data/weights/mae_pretrain_vit_base.pth"),
)
neck = dict(_delete_=True, type="TapFeaturePyramid", in_channels=768, out_channels=256)
norm_cfg = dict(type="ChannelLayerNorm")
rpn_head = dict(num_convs=2)
box_head = dict(type="ConvFCBBoxHead", num_shared_convs=4, num_shared_fcs=1, conv_out_channels=256, norm_cfg=norm_cfg)
mask_head = dict(norm_cfg=norm_cfg)

max_epochs = 25  # each sees the images four times: 100 epochs
train_dataloader = dict(batch_size=8)  # on 8 GPUs, 64 in all
test_pipeline = [
    dict(type="LoadImageFromFile", backend_args=None),
    dict(type="Resize", scale=(1024, 1024), keep_ratio=True),
    dict(type="LoadAnnotations", with_bbox=True, with_mask=True),
    dict(type="PackDetInputs", meta_keys=("img_id", "img_path", "ori_shape", "img_shape", "scale_factor")),
]
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
optim_wrapper = dict(
    _delete_=True,
    type="OptimWrapper",
    optimizer=dict(type="AdamW", lr=1e-4, betas=(0.9, 0.999), weight_decay=0.1),
    constructor="mmseg.LearningRateDecayOptimizerConstructor",
    paramwise_cfg=dict(num_layers=12, decay_rate=0.7, decay_type="layer_wise"),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-3, by_epoch=False, begin=0, end=250),
    dict(type="MultiStepLR", begin=0, end=max_epochs, by_epoch=True, milestones=[22, 24], gamma=0.1),
]
