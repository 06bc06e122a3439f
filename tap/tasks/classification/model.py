"""The classifier: sparse encoder and linear head on the class token."""

from __future__ import annotations

from typing import Literal, overload

from torch import Tensor, nn

from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.trace import Trace
from tap.tasks.teacher import Teacher


def new_head(width: int, num_classes: int) -> nn.Module:
    """A linear head on `width` features, or none for 0 classes."""
    if num_classes == 0:
        return nn.Identity()
    head = nn.Linear(width, num_classes)
    nn.init.trunc_normal_(head.weight, std=2e-5)  # MAE's fine-tuning starts from an almost silent head
    nn.init.zeros_(head.bias)
    return head


class Classifier(nn.Module):
    """Encoder and linear head (Sec. Setup); the class token is read after the final norm.

    Args:
        encoder: sparse encoder without read blocks.
        num_classes: outputs of the head; 0 for none.
    """

    teacher: Teacher | None = None
    """The no-pruning model of the seed, while a method that wants one is trained; no part of this module."""

    def __init__(self, encoder: SparseEncoder, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = new_head(encoder.vit.embed_dim, num_classes)

    @overload
    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, return_trace: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, *, return_trace: Literal[True]
    ) -> tuple[Tensor, Trace]: ...

    def forward(
        self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False
    ) -> Tensor | tuple[Tensor, Trace]:
        """Classifies a batch.

        Args:
            images: `(B, C, H, W)`.
            sample_ids: `(B,)` int64, key of stateless random draws (Random); optional.
            return_trace: whether to return the decisions as well.

        Returns:
            Logits `(B, num_classes)`, and the trace if asked for.
        """
        output = self.encoder(images, sample_ids, return_trace)
        logits = self.classify(output)
        return (logits, output.trace) if return_trace else logits

    def classify(self, output: EncoderOutput) -> Tensor:
        """Logits `(B, num_classes)` of what the encoder returned."""
        return self.head(self.encoder.pool(output))
