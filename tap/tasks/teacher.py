"""The no-pruning model of the same seed as a teacher: frozen, and outside the model that is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tap.reducers.base import TeacherOutput


class Teacher:
    """Answers for a trained, frozen model.

    Not a module, so that it is no part of the model that holds it: neither of its weights, nor of its copies.

    Args:
        model: classifier without pruning, on the device of the images.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model.eval().requires_grad_(False)

    def __deepcopy__(self, memory: dict) -> Teacher:
        return self

    @torch.no_grad()
    def __call__(self, images: Tensor, sample_ids: Tensor) -> TeacherOutput:
        """Logits and normalised final patch states of images `(B, C, H, W)`."""
        encoder = self.model.encoder
        output = encoder(images, sample_ids)
        tokens = output.tokens
        patches = encoder.vit.norm(tokens.rectangle)[:, tokens.layout.prefix :]
        return TeacherOutput(self.model.classify(output).float(), patches)
