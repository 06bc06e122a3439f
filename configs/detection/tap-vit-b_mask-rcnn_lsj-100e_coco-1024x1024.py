# Mask R-CNN on ViTDet's pyramid.
_base_ = [
    "mmdet::_base_/models/mask-rcnn_r50_fpn.py",
    "../_base_/tap_vit_base_det.py",
]
model = dict(
    data_preprocessor={{_base_.data_preprocessor}},
    backbone={{_base_.backbone}},
    neck={{_base_.neck}},
    rpn_head={{_base_.rpn_head}},
    roi_head=dict(bbox_head={{_base_.box_head}}, mask_head={{_base_.mask_head}}),
    train_cfg=dict(rpn=dict(allowed_border=-1)),  # as ViTDet: anchors may reach over the border
)
