"""Registers for MMSegmentation and MMDetection: `import tap.openmmlab` and name `TapViT` in a configuration.

Registered in both: the backbone `TapViT`, the necks `TapFeaturePyramid` (ViTDet's, with a norm `ChannelLayerNorm`), the
segmentation head `GridMLPHead`, and `TapProgressHook`, which a training needs.
"""

from tap.openmmlab.backbone import MAETapViT
from tap.openmmlab.hooks import TapProgressHook
from tap.openmmlab.neck import TapFeaturePyramid
from tap.tasks.segmentation.head import GridMLPHead

__all__ = ["GridMLPHead", "MAETapViT", "TapFeaturePyramid", "TapProgressHook"]
