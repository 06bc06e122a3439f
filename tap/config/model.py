"""The backbone."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.detector import DetectorConfig
from tap.config.strict import Strict
from tap.config.values import check_blocks


class ModelConfig(Strict):
    """The backbone: a name that timm knows, or the sizes of a plain ViT (Sec. Implementation)."""

    timm_name: str | None = Field(
        None, description="timm model, such as vit_base_patch16_224.mae; null uses the sizes below"
    )
    image_size: int = Field(ge=8, description="input resolution in pixels (square)")
    patch_size: int = Field(ge=1, description="side of a patch in pixels")
    channels: int = Field(3, ge=1, description="image channels")
    width: int = Field(768, ge=8, description="token dimension d")
    depth: int = Field(12, ge=1, description="number of blocks L")
    heads: int = Field(12, ge=1, description="attention heads H")
    mlp_ratio: float = Field(4.0, gt=0, description="hidden width of the MLP over d")
    class_token: bool = Field(True, description="whether the pipeline has a class token (cls and seg do, det does not)")
    drop_path: float = Field(0.0, ge=0, lt=1, description="stochastic depth rate of the last block")
    head_channels: int = Field(256, ge=1, description="channels of the dense head")
    read_blocks: tuple[int, ...] = Field((), description="blocks (from 1) after which a dense head reads the grid")
    window: int | None = Field(
        None, ge=1, description="patches per side of an attention window (ViTDet); null is a plain ViT"
    )
    global_blocks: tuple[int, ...] | None = Field(
        None, description="blocks (from 1) that attend globally where there are windows; methods prune there"
    )
    rel_pos: bool | None = Field(None, description="decomposed relative position in every block; null is off")
    pad_windows: bool | None = Field(
        None, description="places beyond the grid's edge act as keys, as in public ViTDet; null masks them"
    )
    position_grid: int | None = Field(
        None,
        ge=1,
        description="patches per side for which absolute positions are stored; null takes those of image_size",
    )
    detector: DetectorConfig | None = Field(None, description="what follows the encoder in detection; null elsewhere")

    @model_validator(mode="after")
    def _sizes_fit(self) -> ModelConfig:
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        check_blocks("read_blocks", self.read_blocks, self.depth)
        check_blocks("global_blocks", self.global_blocks or (), self.depth)
        if self.window is None and (self.global_blocks is not None or self.pad_windows):
            raise ValueError("global_blocks and pad_windows are for a model with windows; give `window` too")
        if self.on_grid and self.class_token:
            raise ValueError("class_token must be false with windows or relative position: it has no place on the grid")
        if self.position_grid is not None and not self.on_grid:
            raise ValueError("position_grid is for a ViTDet trunk; give `window` or `rel_pos` too")
        return self

    @property
    def on_grid(self) -> bool:
        """Whether this is a ViTDet trunk: windows, relative position, or both."""
        return self.window is not None or bool(self.rel_pos)

    @property
    def plain(self) -> ModelConfig:
        """The plain ViT of the same sizes, which is what MAE pre-trains."""
        grid = ("window", "global_blocks", "rel_pos", "pad_windows", "position_grid")
        return self.model_copy(update=dict.fromkeys(grid))
