"""Settings of ATS."""

from __future__ import annotations

from pydantic import Field

from tap.config.strict import Options


class AtsOptions(Options):
    """ATS."""

    first_block: int = Field(4, ge=1, description="first block that samples (public)")
    last_block: int | None = Field(
        None, ge=1, description="last block that samples; null (default) is the last but one, so that its count is K"
    )
    most: int | None = Field(
        None, ge=1, description="most patches that a block may keep; null (default) lets the samples alone decide"
    )
    threshold: float = Field(
        1.0, gt=0, description="samples of a block as a share of the image's patches, until calibrated (public: 1)"
    )
