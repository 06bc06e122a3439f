"""Settings of ToMe."""

from __future__ import annotations

from pydantic import Field

from tap.config.strict import Options


class TomeOptions(Options):
    """ToMe."""

    removals: tuple[int, ...] | None = Field(
        None,
        description="tokens to merge in each block, from the first; null (default) is the same number in every block "
        "but the last, so that K patches reach it (public: one number for all blocks)",
    )
    proportional: bool = Field(
        False,
        description="add the logarithm of a token's size to its logits (public: off for MAE backbones and in training)",
    )
