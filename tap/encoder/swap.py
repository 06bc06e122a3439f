"""A model that runs with another encoder for a while, as probes and controls have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def swapped_encoder(model: Any, encoder: nn.Module) -> Iterator[None]:
    """Evaluation without gradients, with `encoder` in the place of the model's own for as long as the context lasts."""
    own = model.encoder
    model.eval()
    model.encoder = encoder
    try:
        with torch.inference_mode():
            yield
    finally:
        model.encoder = own
