"""The classes of MMDetection that this project builds on, imported without their known noise.

Apart from the data's imports (`tap.tasks.detection.data_transforms`), since models take seconds to import.
"""

from __future__ import annotations

import warnings

from tap.tasks.openmmlab import import_quietly

import_quietly("mmdet.models")
warnings.filterwarnings("ignore", message="To copy construct from a tensor")  # of the mask head, at every inference

from mmdet.registry import MODELS  # noqa: E402  what the lines above have imported is only named here
from mmdet.structures import DetDataSample  # noqa: E402
from mmdet.structures.mask import encode_mask_results  # noqa: E402

__all__ = ["MODELS", "DetDataSample", "encode_mask_results"]
