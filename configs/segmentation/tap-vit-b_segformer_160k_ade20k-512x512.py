# The paper's segmenter: SegFormer's MLP head on the grids after blocks 3, 6, 9 and 12.
_base_ = "../_base_/tap_vit_base_seg.py"

model = dict(
    type="EncoderDecoder",
    data_preprocessor={{_base_.data_preprocessor}},
    backbone={{_base_.backbone}},
    decode_head=dict(
        type="GridMLPHead", in_channels=[768] * 4, channels=256, num_classes=150, dropout_ratio=0.1, sync=True
    ),
    train_cfg=dict(),
    test_cfg=dict(mode="slide", crop_size=(512, 512), stride=(341, 341)),
)
