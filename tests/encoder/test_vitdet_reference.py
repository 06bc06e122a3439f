"""Parity with public ViTDet: recorded values of its trunk and of its parts (`data/README.md`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tap.config.model import ModelConfig
from tap.encoder.layout import Layout
from tap.encoder.patch_positions import Frame
from tap.encoder.relative import fold, resize_table
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.vitdet import resize_positions
from tap.encoder.weights import load_backbone
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.dense import Dense

TRUNK = {
    "image_size": 320, "patch_size": 16, "width": 48, "depth": 4, "heads": 3, "class_token": False, "window": 14,
    "global_blocks": (3,), "rel_pos": True, "pad_windows": True, "position_grid": 14,
}  # fmt: skip


@pytest.fixture(scope="module")
def public() -> dict[str, Tensor]:
    with np.load(Path(__file__).parent / "data" / "vitdet.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture
def weights(public, tmp_path) -> Path:
    """The trunk's weights under the names of a whole detector, with something that is not of the trunk."""
    path = tmp_path / "detector.safetensors"
    tensors = {f"backbone.net.{name[2:]}": value for name, value in public.items() if name.startswith("w.")}
    save_file(tensors | {"backbone.simfp_2.0.weight": torch.zeros(3), "roi_heads.x": torch.zeros(2)}, path)
    return path


def loaded(weights: Path, **changes) -> nn.Module:
    vit = build_vit(ModelConfig(**TRUNK | changes))
    load_backbone(vit, weights)
    return vit


def grids(vit: nn.Module, images: Tensor) -> list[Tensor]:
    encoder = SparseEncoder(vit, Dense(ReducerSettings(48, 4, layers=(3,))), (3, 4)).eval()
    with torch.no_grad():
        return encoder(images).grids


@pytest.mark.parametrize("changes", [{}, {"position_grid": None}])
def test_trunk(public, weights, changes):
    """20 x 20 patches in windows of 14: padding acts as keys, positions come from a 14 x 14 grid with a class token."""
    third, last = grids(loaded(weights, **changes), public["sq_img_u8"].float() / 127.5 - 1)
    torch.testing.assert_close(third, public["sq_block2"].flatten(1, 2), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last.mT.unflatten(2, (20, 20)), public["sq_last"], rtol=1e-5, atol=1e-5)


def test_masked_padding_is_another_model(public, weights):
    (third, _) = grids(loaded(weights, pad_windows=None), public["sq_img_u8"].float() / 127.5 - 1)
    assert (third - public["sq_block2"].flatten(1, 2)).abs().max() > 0.01


def test_tables_of_another_grid_are_interpolated(public, weights):
    vit = loaded(weights, image_size=256)
    found, expected = vit.blocks[2].attn.rel_pos_h, public["w.blocks.2.attn.rel_pos_h"]
    assert found.shape == (31, 16)
    torch.testing.assert_close(found, nn.functional.interpolate(expected.T[None], 31, mode="linear")[0].T)
    assert torch.equal(vit.blocks[0].attn.rel_pos_h, public["w.blocks.0.attn.rel_pos_h"])


def test_weights_of_another_trunk_are_refused(weights):
    with pytest.raises(UserError, match="of another shape"):
        loaded(weights, heads=4)
    with pytest.raises(UserError, match=r"8 unknown .*rel_pos_h"):
        loaded(weights, rel_pos=None)


@pytest.mark.parametrize(("name", "side"), [("grp0", 14), ("grp1", 16), ("grp2", 20)])
def test_relative_tables(public, name, side):
    """The vector of every pair of rows, from a table that fits (14, 16) and from one that does not (20)."""
    table = resize_table(public[f"{name}_table"], 2 * side - 1)
    distance = torch.arange(side)[:, None] - torch.arange(side) + side - 1
    torch.testing.assert_close(table[distance], public[f"{name}_out"])


def test_decomposed_bias(public):
    """6 x 8 patches: the fold's product is the recorded logit, with the scaling of the logit taken out."""
    query = public["drp_q"].transpose(0, 1)  # (48, 3 heads, 5)
    place = torch.arange(48)
    frame = Frame(Layout(0, (48,), (0,), place.device), place // 8, place % 8, (6, 8))
    long, key = fold(query, torch.zeros_like(query), (public["drp_h"], public["drp_w"]), frame)
    bias = torch.einsum("qhd,khd->hqk", long, key)
    torch.testing.assert_close(public["drp_attn"] + bias, public["drp_out"])


@pytest.mark.parametrize("size", [(32, 32), (20, 24)])
def test_absolute_positions(public, size):
    got = resize_positions(public["abs_in"][:, 1:], (14, 14), size)
    torch.testing.assert_close(got.unflatten(1, size), public[f"abs_{size[0]}x{size[1]}"])
