"""The segmentation head: SegFormer's MLP over the grids of several blocks, as a decode head of MMSegmentation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from tap.tasks.openmmlab import named_in
from tap.tasks.segmentation.data_transforms import IGNORE
from tap.tasks.segmentation.mmseg_parts import BaseDecodeHead, ConvModule


@MODELS.register_module()
class GridMLPHead(BaseDecodeHead):
    """One linear layer per level, concatenation, a fusing layer, a classifier; all of them per position.

    Levels are raw residual streams, whose scale grows with depth, so each is normalised by a LayerNorm first; in
    SegFormer the stages of the backbone end with one. The fusing layer has SegFormer's batch norm, over the pixels of
    all processes on GPUs. Its statistics are fixed at inference, so no prediction depends on its batch.

    The loss is the mean cross entropy over all pixels, void ones counting as zero: the mean over processes is then the
    mean over their common batch, however void is spread.

    Args:
        in_channels: channels of each level.
        channels: channels of the linear layers and of the fused map.
        num_classes: outputs.
        sync: whether batch statistics are those of all processes (needs GPUs).
        **kwargs: options of MMSegmentation's `BaseDecodeHead`, such as `dropout_ratio`.
    """

    def __init__(
        self, in_channels: Sequence[int], channels: int, *, num_classes: int, sync: bool = False, **kwargs: Any
    ) -> None:
        with named_in("mmseg"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Default ``avg_non_ignore`` is False")
            super().__init__(
                list(in_channels),
                channels,
                num_classes=num_classes,
                in_index=list(range(len(in_channels))),
                input_transform="multiple_select",
                norm_cfg={"type": "SyncBN" if sync else "BN"},
                ignore_index=IGNORE,
                init_cfg=None,
                **kwargs,
            )
        self.levels = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width, eps=1e-6), nn.Linear(width, channels)) for width in in_channels
        )
        self.fuse = ConvModule(channels * len(in_channels), channels, 1, norm_cfg=self.norm_cfg, act_cfg=self.act_cfg)
        for _, linear in self.levels:
            nn.init.trunc_normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(self.conv_seg.weight, std=0.01)
        nn.init.zeros_(self.conv_seg.bias)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Classifies every position.

        Args:
            inputs: one map per level `(B, d, h, w)`, all of one height and width.

        Returns:
            Logits `(B, num_classes, h, w)`.
        """
        maps = self._transform_inputs(inputs)
        mixed = [level(grid.movedim(1, -1)) for level, grid in zip(self.levels, maps, strict=True)]
        return self.cls_seg(self.fuse(torch.cat(mixed, dim=-1).movedim(-1, 1)))
