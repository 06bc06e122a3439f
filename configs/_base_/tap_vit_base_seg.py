# ViT-B with a register for segmentation at 512 x 512, and the training of tab:training-config.
_base_ = ["./ade20k.py", "./seg_runtime.py"]

custom_imports = dict(imports=["tap.openmmlab"], allow_failed_imports=False)
custom_hooks = [dict(type="TapProgressHook")]

data_preprocessor = dict(
    type="SegDataPreProcessor",
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    bgr_to_rgb=True,
    pad_val=0,
    seg_pad_val=255,
    size=(512, 512),
)
backbone = dict(
    type="TapViT",
    model=dict(timm_name="vit_base_patch16_224.mae", image_size=512, patch_size=16, drop_path=0.1),
    task="seg",
    keep_rate=0.5,
    out_indices=(2, 5, 8, 11),
    # The public MAE weights of ViT-B; get the file and pin its sha256 here.
    init_cfg=dict(type="Pretrained", checkpoint="data/weights/mae_pretrain_vit_base.pth"),
)

optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="AdamW", lr=6e-5, betas=(0.9, 0.999), weight_decay=0.01),
    constructor="LearningRateDecayOptimizerConstructor",
    paramwise_cfg=dict(num_layers=12, decay_rate=0.65, decay_type="layer_wise"),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-6, by_epoch=False, begin=0, end=1500),
    dict(type="PolyLR", eta_min=0.0, power=1.0, begin=1500, end=160000, by_epoch=False),
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=160000, val_interval=16000)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
