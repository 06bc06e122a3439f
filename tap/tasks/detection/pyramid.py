"""ViTDet's simple feature pyramid: five levels made of the one grid at the end of the encoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.registry import MODELS
from torch import Tensor, nn

SCALES = (4.0, 2.0, 1.0, 0.5)
"""Size of a level over the size of the grid. A fifth level takes every second position of the last of them."""


@MODELS.register_module(name="ChannelLayerNorm")
class ChannelLayerNorm(nn.Module):
    """LayerNorm over the channels of each position of a map.

    Args:
        num_features: channels C.
        eps: added to the variance.
    """

    _abbr_ = "ln"  # what MMCV calls the layer inside its convolution modules

    def __init__(self, num_features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, H, W)` to the same."""
        return F.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, self.eps).permute(
            0, 3, 1, 2
        )


class SimpleFeaturePyramid(nn.Module):
    """Levels at 4, 2, 1 and 1/2 times the size of the grid, and one at 1/4 by subsampling.

    Args:
        width: channels d of the grid, a multiple of 4.
        channels: channels of every level.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(
                *resample,
                nn.Conv2d(inner, channels, 1, bias=False),
                ChannelLayerNorm(channels),
                nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                ChannelLayerNorm(channels),
            )
            for resample, inner in (_resample(width, scale) for scale in SCALES)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Grid `(B, d, h, w)` to five maps `(B, channels, ., .)`, the finest first."""
        maps = [level(x) for level in self.levels]
        return (*maps, maps[-1][..., ::2, ::2])


def _resample(width: int, scale: float) -> tuple[list[nn.Module], int]:
    """What brings the grid to a scale, and the channels that come out of it."""
    if scale == 4.0:
        finer: list[nn.Module] = [
            nn.ConvTranspose2d(width, width // 2, 2, stride=2),
            ChannelLayerNorm(width // 2),
            nn.GELU(),
            nn.ConvTranspose2d(width // 2, width // 4, 2, stride=2),
        ]
        return finer, width // 4
    if scale == 2.0:
        return [nn.ConvTranspose2d(width, width // 2, 2, stride=2)], width // 2
    return ([] if scale == 1.0 else [nn.MaxPool2d(2)]), width
