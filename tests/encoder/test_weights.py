"""Backbone weights from files of different origin, fitted to the model or refused."""

import pytest
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.encoder.weights import load_backbone
from tap.errors import UserError


def vit(width=12, depth=3, size=16, **options):
    torch.manual_seed(width + depth + size)
    return VisionTransformer(
        img_size=size, patch_size=4, embed_dim=width, depth=depth, num_heads=2, num_classes=0, **options
    )


def same(model, source):
    return all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_a_backbone_is_taken_from_a_run_of_this_project(tmp_path):
    source, other = vit(), vit()
    tensors = {f"encoder.vit.{name}": tensor for name, tensor in source.state_dict().items()}
    save_file({**tensors, "head.weight": torch.zeros(3, 12)}, path := tmp_path / "model.safetensors")
    nn.init.zeros_(other.blocks[1].attn.qkv.weight)
    load_backbone(other, path)
    assert same(other, source)


def test_a_backbone_is_taken_from_a_public_mae_file(tmp_path):
    source, other = vit(), vit()
    nn.init.zeros_(other.blocks[1].attn.qkv.weight)
    public = {**source.state_dict(), "mask_token": torch.zeros(1, 1, 8), "decoder_embed.weight": torch.zeros(8, 12)}
    torch.save({"model": public}, tmp_path / "mae.pth")
    load_backbone(other, tmp_path / "mae.pth")
    assert same(other, source)


def test_positions_are_resized_to_another_grid_and_the_class_token_may_go(tmp_path):
    source = vit(size=16)
    save_file(source.state_dict(), path := tmp_path / "model.safetensors")
    larger = vit(size=32)
    load_backbone(larger, path)
    assert torch.equal(larger.pos_embed[:, 0], source.pos_embed[:, 0])
    coarse = larger.pos_embed[0, 1:].reshape(4, 2, 4, 2, 12).mean(dim=(1, 3)).reshape(16, 12)
    assert torch.allclose(coarse, source.pos_embed[0, 1:], atol=0.02)
    bare = vit(size=16, class_token=False, global_pool="avg", fc_norm=False)
    load_backbone(bare, path)
    assert torch.equal(bare.pos_embed, source.pos_embed[:, 1:])


def test_a_backbone_of_another_width_or_depth_is_refused(tmp_path):
    save_file(vit().state_dict(), path := tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="of another shape"):
        load_backbone(vit(width=24), path)
    with pytest.raises(UserError, match="12 missing"):
        load_backbone(vit(depth=4), path)
