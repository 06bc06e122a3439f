"""Settings of ALGM."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.strict import Options


class AlgmOptions(Options):
    """ALGM."""

    local_block: int = Field(1, ge=1, description="block that merges windows of 2 x 2 patches (public)")
    global_blocks: tuple[int, ...] = Field((5,), description="blocks that merge pairs from the whole image (public)")
    threshold: float = Field(
        0.94, ge=-1, description="mean cosine from which a window merges, until calibrated (public: ViT-B)"
    )

    @model_validator(mode="after")
    def _ordered(self) -> AlgmOptions:
        blocks = (self.local_block, *self.global_blocks)
        if list(blocks) != sorted(set(blocks)):
            raise ValueError(f"global_blocks must be increasing block numbers behind local_block {self.local_block}")
        return self
