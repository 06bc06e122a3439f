"""What a register decided for each image: removal shares and recovery scales of the passes of an evaluation.

Arrays and metrics are called by the pruning block: ``removal_share_3``, ``recovery_scale_3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from tap.encoder.trace import Trace

SHARE, SCALE = "removal_share_", "recovery_scale_"
_UNITS: Final = {SHARE: 100.0, SCALE: 1.0}


def decisions_of(traces: Sequence[Trace]) -> dict[str, NDArray]:
    """Share of the removal budget and recovery scale at every pruning block `(B,)`, averaged over an image's windows.

    A scale is NaN where nothing was left to remove; a task without recovery has none.

    Args:
        traces: of the passes over the same images.
    """
    layers = sorted(traces[0].removed)
    shares = torch.stack([trace.shares for trace in traces]).mean(dim=0).cpu().numpy()
    found = {f"{SHARE}{layer}": shares[:, place] for place, layer in enumerate(layers)}
    if any(trace.scales for trace in traces):
        nothing = torch.full((len(shares),), float("nan"))
        for layer in layers:
            scales = torch.stack([trace.scales.get(layer, nothing).float().cpu() for trace in traces])
            found[f"{SCALE}{layer}"] = scales.nanmean(dim=0).double().numpy()
    return found


def decision_metrics(arrays: Mapping[str, NDArray]) -> dict[str, float]:
    """Mean and standard deviation over the images: shares in percent, scales as they are.

    The deviation is that of all images of the split, which are no sample. A block at which no image had anything left
    to remove has no scale.
    """
    found = {}
    for name, values in arrays.items():
        for start, unit in _UNITS.items():
            known = unit * values[~np.isnan(values)] if name.startswith(start) else np.empty(0)
            if len(known):
                found |= {name: float(known.mean()), f"{name}_sd": float(known.std())}
    return found
