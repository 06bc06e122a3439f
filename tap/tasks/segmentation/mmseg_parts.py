"""The model and metric classes of MMSegmentation that this project builds on, imported without their known noise.

Apart from `tap.tasks.openmmlab`, since these take seconds to import and reading data does not need them.
"""

from __future__ import annotations

from tap.tasks.openmmlab import import_quietly

import_quietly("mmseg.models")
import_quietly("mmseg.evaluation")

from mmcv.cnn import ConvModule  # noqa: E402  what the lines above have imported is only named here
from mmseg.evaluation import IoUMetric  # noqa: E402
from mmseg.models.decode_heads.decode_head import BaseDecodeHead  # noqa: E402
from mmseg.models.segmentors import BaseSegmentor, EncoderDecoder  # noqa: E402
from mmseg.structures import SegDataSample  # noqa: E402
from mmseg.utils import add_prefix  # noqa: E402

__all__ = [
    "BaseDecodeHead",
    "BaseSegmentor",
    "ConvModule",
    "EncoderDecoder",
    "IoUMetric",
    "SegDataSample",
    "add_prefix",
]
