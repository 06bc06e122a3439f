"""Settings of TAP-F."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tap.config.strict import Options


class TapFOptions(Options):
    """TAP-F."""

    rank: int = Field(8, ge=1, description="rank of the low-rank updates (paper)")
    alpha: float = Field(8.0, gt=0, description="updates are scaled by alpha / rank (the paper gives none)")
    register_of: Literal["own", "shared"] = Field(
        "own", description="whether each task has a register of its own, or all have one (tab:factorial)"
    )
    adapters_of: Literal["own", "shared"] = Field(
        "own", description="whether each task has low-rank updates of its own, or all have one set (tab:factorial)"
    )
