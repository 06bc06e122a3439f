"""ViTDet's simple feature pyramid as a neck of MMDetection."""

from __future__ import annotations

from collections.abc import Sequence

from mmengine.registry import MODELS
from torch import Tensor

from tap.errors import UserError
from tap.tasks.detection.pyramid import SimpleFeaturePyramid


@MODELS.register_module()
class TapFeaturePyramid(SimpleFeaturePyramid):
    """Five maps, at 4, 2, 1, 1/2 and 1/4 times the size of the one map that it is given.

    Args:
        in_channels: channels d of the map.
        out_channels: channels of every level.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:  # type: ignore[override]
        """One map `(B, d, h, w)` in a sequence, to five, the finest first.

        Raises:
            UserError: there is another number of maps.
        """
        if len(inputs) != 1:
            raise UserError(f"TapFeaturePyramid: reads one map, not {len(inputs)}; give the backbone one out_indices")
        return super().forward(inputs[0])
