# The paper's detector: Cascade Mask R-CNN on ViTDet's pyramid.
_base_ = [
    "mmdet::_base_/models/cascade-mask-rcnn_r50_fpn.py",
    "../_base_/tap_vit_base_det.py",
]
# A list replaces that of the base model whole: the heads of the three stages differ in how finely they place boxes.
box_heads = [
    dict(
        type="ConvFCBBoxHead",
        num_shared_convs=4,
        num_shared_fcs=1,
        in_channels=256,
        conv_out_channels=256,
        fc_out_channels=1024,
        roi_feat_size=7,
        num_classes=80,
        reg_class_agnostic=True,
        norm_cfg=dict(type="ChannelLayerNorm"),
        bbox_coder=dict(type="DeltaXYWHBBoxCoder", target_means=[0.0] * 4, target_stds=spread),
        loss_cls=dict(type="CrossEntropyLoss", use_sigmoid=False, loss_weight=1.0),
        loss_bbox=dict(type="SmoothL1Loss", beta=1.0, loss_weight=1.0),
    )
    for spread in ([0.1, 0.1, 0.2, 0.2], [0.05, 0.05, 0.1, 0.1], [0.033, 0.033, 0.067, 0.067])
]
model = dict(
    data_preprocessor={{_base_.data_preprocessor}},
    backbone={{_base_.backbone}},
    neck={{_base_.neck}},
    rpn_head={{_base_.rpn_head}},
    roi_head=dict(bbox_head=box_heads, mask_head={{_base_.mask_head}}),
    train_cfg=dict(rpn=dict(allowed_border=-1)),  # as ViTDet: anchors may reach over the border
)
