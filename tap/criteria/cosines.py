"""All pairwise cosines of an image's patches, as exact integers.

Greedy rules compare cosines thousands of times, and one flipped comparison changes everything after it. A plain matrix
product rounds differently with its shape, its threads and the place of a row, so that copies of a patch would not tie
and an image's answer would depend on its batch. Here the unit vectors are rounded to multiples of 2^-26 first. Their
products are multiples of 2^-52, and no partial sum exceeds the product of two lengths, which is 1: float64 holds every
intermediate value exactly, in whatever order a kernel adds. Dividing by the rounded lengths then gives copies of a
patch, at any scale, a cosine of exactly 1. The rounding turns a vector by about 1e-8, less than float32 would.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tap.criteria.norms import l2

UNIT = 2**30
"""The integer that stands for a cosine of 1."""
_FEATURE_BITS = 26
_EPSILON = 1e-6


def cosines(vectors: Tensor, rows: int = 256) -> Tensor:
    """Cosine similarity of every two patches of an image, in multiples of 2^-30; sums over patches are exact too.

    Args:
        vectors: ``(B, N, d)``; a vector of zeros, or with a value that is not finite, has cosine 0
            with all.
        rows: rows of the matrix whose float64 products are held at once.

    Returns:
        Symmetric ``(B, N, N)`` int32.
    """
    vectors = vectors.detach().double()
    unit = vectors / l2(vectors).clamp_min(_EPSILON).unsqueeze(2)
    unit = (unit * 2.0**_FEATURE_BITS).round_().nan_to_num_(0.0)
    length = unit.square().sum(dim=2).sqrt().clamp_min(1.0)
    batch, patches, _ = unit.shape
    result = torch.empty(batch, patches, patches, dtype=torch.int32, device=unit.device)
    for start in range(0, patches, rows):
        stop = min(start + rows, patches)
        product = torch.bmm(unit[:, start:stop], unit[:, start:].transpose(1, 2))
        product /= length[:, start:stop, None] * (length[:, None, start:] / UNIT)
        block = product.round_().to(torch.int32)
        result[:, start:stop, start:] = block
        result[:, stop:, start:stop] = block[:, :, stop - start :].transpose(1, 2)
    return result
