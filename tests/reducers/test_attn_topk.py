"""Attn Top-K is the public EViT without its fused token."""

from __future__ import annotations

import pytest
import torch
from public_vit import logits, public_encoder, public_images, reference
from tiny_models import tiny_encoder, tiny_images

from tap.encoder.attention import mean_incoming_attention
from tap.encoder.blocks import project


def test_public_evit_values():
    """Counts 155, 123, 98; the same patches in every stage, the same logits."""
    expected, encoder = reference("evit"), public_encoder("attn_topk")
    with torch.no_grad():
        output = encoder(public_images(), return_trace=True)
        found = logits(encoder, output)
    left = torch.arange(196).expand(2, -1)
    for stage, (layer, count) in enumerate(((3, 155), (6, 123), (9, 98))):
        left = left.gather(1, expected[f"fuse0_count_topk{stage}"].long())
        assert left.shape == (2, count)
        for image in range(2):
            assert output.trace.kept_indices(layer)[image].tolist() == sorted(left[image].tolist())
    torch.testing.assert_close(found, expected["fuse0_count_logits"], rtol=0, atol=1e-4)


def test_the_removed_patches_are_attended_to_once_more():
    """Selection lies between attention and MLP: what is removed still shaped the survivors of that block."""
    encoder = tiny_encoder("attn_topk", 0.5, (2,), grid=(4, 4)).double()
    images = tiny_images(encoder, 2)
    before, attended = [], []
    encoder.vit.blocks[0].register_forward_hook(lambda _module, _inputs, out: before.append(out))
    encoder.vit.blocks[1].norm2.register_forward_pre_hook(lambda _module, inputs: attended.append(inputs[0]))
    with torch.no_grad():
        trace = encoder(images, return_trace=True).trace
        block = encoder.vit.blocks[1]
        whole = before[0] + block.attn(block.norm1(before[0]))
    for image, kept in enumerate(trace.kept_indices(2)):
        rows = torch.cat([torch.zeros(1, dtype=torch.int64), kept + 1])
        torch.testing.assert_close(attended[0].view(2, 9, 16)[image], whole[image, rows])


@pytest.mark.parametrize("class_token", [True, False])
def test_the_score(class_token):
    """The class token's attention row where there is one, mean incoming attention elsewhere."""
    encoder = tiny_encoder("attn_topk", 0.5, (1,), grid=(3, 4), class_token=class_token).double()
    images, block = tiny_images(encoder, 2), encoder.vit.blocks[0]
    with torch.no_grad():
        kept = encoder(images, return_trace=True).trace.kept[1]
        hidden = block.norm1(encoder.vit._pos_embed(encoder.vit.patch_embed(images)))
        query, key = (project(block.attn, hidden, part) for part in ("q", "k"))
        if class_token:
            logits = torch.einsum("bhd,bshd->bhs", query[:, 0], key) / 8**0.5
            score = logits.softmax(dim=-1).mean(dim=1)[:, 1:]
        else:
            score = mean_incoming_attention(query, key)
    lowest_kept = score.masked_fill(~kept, 2).amin(dim=1)
    assert (lowest_kept > score.masked_fill(kept, -1).amax(dim=1)).all()
