"""EViT: the public values, and the fused token."""

from __future__ import annotations

import pytest
import torch
from public_vit import logits, public_encoder, public_images, reference
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.evit import EvitOptions
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize(("how", "counts"), [("count", (155, 123, 98)), ("rate", None)])
def test_public_values(fuse, how, counts):
    """Logits, and the kept patches of every stage; a fused token that stays is no patch."""
    expected = reference("evit")
    encoder = public_encoder("evit", EvitOptions(fuse=fuse, stage_rate=0.7937 if how == "rate" else None))
    with torch.no_grad():
        output = encoder(public_images(), return_trace=True)
        found = logits(encoder, output)
    torch.testing.assert_close(found, expected[f"fuse{fuse:d}_{how}_logits"], rtol=0, atol=1e-4)
    left = torch.arange(196).expand(2, -1)
    for stage, layer in enumerate((3, 6, 9)):
        places = expected[f"fuse{fuse:d}_{how}_topk{stage}"].long()
        assert counts is None or places.shape[1] == counts[stage]
        left = left.gather(1, places)
        for image in range(2):
            patches = [patch for patch in left[image].tolist() if patch < 196]
            assert output.trace.kept_indices(layer)[image].tolist() == sorted(patches)
        if fuse:
            left = torch.cat([left, torch.full((2, 1), 196)], dim=1)
    assert output.trace.final_counts.tolist() == [left.shape[1]] * 2


def test_given_counts():
    encoder = public_encoder("evit", EvitOptions(counts=(150, 100, 90), fuse=False))
    with torch.no_grad():
        trace = encoder(public_images(), return_trace=True).trace
    assert trace.removals.tolist() == [[46, 50, 10]] * 2


def test_the_fused_token_is_the_weighted_sum_of_what_goes():
    """Against plain loops in float64; the weights are the scores as they are."""
    encoder = tiny_encoder("evit", 0.5, (1,), grid=(3, 4)).double()
    images, block = tiny_images(encoder, 2), encoder.vit.blocks[0]
    seen = []
    block.norm2.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        kept = encoder(images, return_trace=True).trace.kept[1]
        x = encoder.vit._pos_embed(encoder.vit.patch_embed(images))
        hidden = block.norm1(x)
        after = x + block.attn(hidden)
        query, key, _ = block.attn.qkv(hidden).unflatten(-1, (3, 2, 8)).unbind(2)
    rows = seen[0].view(2, 8, 16)  # class token, six patches, the fused token
    for image in range(2):
        fused = torch.zeros(16, dtype=torch.float64)
        for patch in range(12):
            score = 0.0
            for head in range(2):
                logit = [float(query[image, 0, head] @ key[image, row, head]) / 8**0.5 for row in range(13)]
                score += float(torch.tensor(logit, dtype=torch.float64).softmax(0)[patch + 1]) / 2
            if not kept[image, patch]:
                fused += score * after[image, patch + 1]
        torch.testing.assert_close(rows[image, -1], fused, rtol=1e-5, atol=1e-6)


def test_warm_up():
    """From every patch along half a cosine to the rate's counts; only in training."""
    options = EvitOptions(warmup_start=0.2, warmup_end=0.6)
    reducer = get("evit")(ReducerSettings(48, 12, options=options))
    schedules = {}
    for progress in (0.0, 0.2, 0.4, 0.6, 1.0):
        reducer.set_progress(progress)
        schedules[progress] = reducer.schedule(196)
    assert schedules[0.0] == schedules[0.2] == [196, 196, 196]
    assert schedules[0.6] == schedules[1.0] == [155, 123, 98]
    share = (1 + 0.5 ** (1 / 3)) / 2
    assert schedules[0.4] == pytest.approx([196 * share, 196 * share**2, 196 * share**3], abs=2)
    reducer.eval().set_progress(0.0)
    assert reducer.schedule(196) == [155, 123, 98]


def test_the_weights_of_the_fused_token_learn():
    """The scores are not cut off from the graph: the class token's query gets a gradient through them alone."""
    encoder = tiny_encoder("evit", 0.5, (2,), grid=(3, 4)).train()
    output = encoder(tiny_images(encoder, 2))
    output.tokens.rectangle[:, -1].sum().backward()
    gradient = encoder.vit.blocks[1].attn.qkv.weight.grad
    assert gradient.isfinite().all()
    assert gradient[:16].any()


def test_refused():
    with pytest.raises(UserError, match=r"evit.counts: 2 for 3 pruning blocks"):
        get("evit")(ReducerSettings(48, 12, options=EvitOptions(counts=(5, 4))))
