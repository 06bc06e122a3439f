"""DiffRate: the public values of model and search, the start of the search, and the counts that follow."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from public_vit import logits, public_encoder, public_images, reference
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.diffrate import DiffRateOptions
from tap.core.budget import keep_count
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.reducers.base import FixedSchedule, PartRates, ReducerSettings, TrainingPass
from tap.reducers.diffrate import (
    _marked,
    _most_similar,
    block_macs,
    embedding_and_head_macs,
    initial_shares,
    pinned,
    round_up,
)
from tap.reducers.merging import Plan, merge
from tap.reducers.registry import get

PRUNE = (196, 196, 175, 155, 155, 138, 123, 123, 109, 98, 98, 98)
MERGE = (196, 196, 155, 155, 155, 123, 123, 123, 98, 98, 98, 98)


def reducer(**options):
    return get("diffrate")(ReducerSettings(**{"width": 48, "depth": 12} | options))


def test_public_model():
    """With given counts: logits, and sizes up to the order of the rows."""
    expected = reference("diffrate")
    encoder = public_encoder("diffrate", DiffRateOptions(prune_counts=PRUNE, merge_counts=MERGE))
    with torch.no_grad():
        output = encoder(public_images(), return_trace=True)
        found = logits(encoder, output)
    torch.testing.assert_close(found, expected["eval_logits"], rtol=0, atol=1e-4)
    size = output.memory["merged"].size.sort(dim=1).values
    torch.testing.assert_close(size, expected["eval_size"][:, 1:, 0].sort(dim=1).values, rtol=0, atol=1e-4)
    assert output.trace.final_counts.tolist() == [98, 98]
    cost = embedding_and_head_macs(encoder.vit, 196, 10) + block_macs(PRUNE, MERGE, 196, 48)
    assert cost.item() * 1e9 == pytest.approx(expected["eval_flops"].item(), rel=1e-6)


def test_public_step_of_the_search():
    """Masks, logits, cost, loss, and the gradient of every count's logits."""
    expected, encoder = reference("diffrate"), public_encoder("diffrate").train()
    given = torch.stack([expected["prune_logits"], expected["merge_logits"]])
    with torch.no_grad():
        encoder.reducer.logits.copy_(given.flatten())
    output = encoder(public_images())
    found, search = logits(encoder, output), output.memory["diffrate search"]
    torch.testing.assert_close(found, expected["train_logits"], rtol=0, atol=1e-4)
    assert search.mask.detach().round().sum(dim=1).tolist() == [59.0, 59.0]
    assert (expected["train_final_mask"].sum(dim=1) - 1).tolist() == [59.0, 59.0]
    kept = ([196, *decision] for decision in search.kept)
    cost = embedding_and_head_macs(encoder.vit, 196, 10) + block_macs(*kept, 196, 48)
    assert cost.item() * 1e9 == pytest.approx(expected["train_flops"].item(), rel=1e-6)
    loss = F.cross_entropy(found, torch.tensor([3, 7])) + 5 * (cost - 0.03).square()
    torch.testing.assert_close(loss, expected["train_loss"], rtol=0, atol=1e-4)
    loss.backward()
    gradient = encoder.reducer.logits.grad.view(2, 11, 49)
    torch.testing.assert_close(gradient[0], expected["prune_grad"], rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(gradient[1], expected["merge_grad"], rtol=1e-3, atol=1e-7)


def test_public_merge():
    """The last ten of forty tokens go into the most similar of the others, the class token excepted."""
    expected = reference("diffrate")
    tokens = Tokens.dense(expected["mf_in"], 1)
    patches = tokens.rectangle[:, 1:]
    similarity, target = _most_similar(patches[:, 29:], patches[:, :29])
    torch.testing.assert_close(similarity, expected["mf_nodemax"], rtol=0, atol=1e-5)
    plan = Plan(torch.arange(29).expand(2, -1), (29, 29), torch.arange(29, 39).expand(2, -1), target)
    torch.testing.assert_close(merge(tokens, plan).rectangle, expected["mf_mean"], rtol=0, atol=1e-5)
    total = patches[:, :29] + plan.hits() @ patches[:, 29:]
    torch.testing.assert_close(total, expected["mf_sum"][:, 1:], rtol=0, atol=1e-5)


def test_public_decision():
    """Expected count rounded up, probability of each rank, and the gradients of mask and count."""
    expected = reference("diffrate")
    weights = expected["ddp_logits"].requires_grad_()
    candidates = torch.arange(196, 0, -4)
    probability = weights.softmax(dim=0)
    count = round_up(probability @ candidates.float())
    assert count.item() + 1 == expected["ddp_kept"].item()
    by_rank = probability @ (torch.arange(196) < candidates[:, None]).float()
    torch.testing.assert_close(by_rank, expected["ddp_tokprob"][1:], rtol=0, atol=1e-5)
    mask = _marked(by_rank, 97, 189)
    torch.testing.assert_close(mask, expected["ddp_mask_190"][1:], rtol=0, atol=1e-5)
    ((mask * expected["ddp_w"][1:]).sum() + 0.01 * count).backward()
    torch.testing.assert_close(weights.grad, expected["ddp_grad"], rtol=0, atol=1e-5)


@settings(deadline=None)
@given(patches=st.integers(1, 2000), percent=st.integers(1, 100), depth=st.integers(2, 13), seed=st.integers(0, 99))
def test_counts_never_grow_and_end_at_k(patches, percent, depth, seed):
    """Also with shares that a search left anywhere; the first block is not touched, nor the last of more than two."""
    own = reducer(depth=depth, layers=(1,), keep_rate=percent / 100)
    for random in (False, True):
        if random:
            own.shares.copy_(torch.rand(own.shares.shape, generator=torch.Generator().manual_seed(seed)))
        prune, merge = own.counts(patches)
        line = [patches] + [count for pair in zip(prune, merge, strict=True) for count in pair]
        assert line == sorted(line, reverse=True)
        assert prune[0] == merge[0] == patches
        assert merge[-1] == merge[max(1, depth - 2)] == keep_count(patches, percent / 100)


@settings(deadline=None)
@given(patches=st.integers(2, 300), percent=st.integers(1, 100), depth=st.integers(2, 13), seed=st.integers(0, 99))
def test_the_search_counts_what_its_counts_will_cost(patches, percent, depth, seed):
    """Pinned counts included: they save nothing beyond K, and the logits behind them get no gradient."""
    own = reducer(depth=depth, layers=(1,), keep_rate=percent / 100)
    kept = torch.randint(1, patches + 1, (2, depth - 1), generator=torch.Generator().manual_seed(seed))
    own.shares.copy_(kept / patches)
    used = block_macs(*own.counts(patches), patches, 16)
    expected = kept.float().requires_grad_()
    prune, merge = pinned(expected, keep_count(patches, percent / 100))
    cost = block_macs([patches, *prune], [patches, *merge], patches, 16)
    assert cost.item() == pytest.approx(used.item(), rel=1e-5)
    if depth > 3:
        cost.backward()
        assert expected.grad[:, -2:].eq(0).all()


def test_the_search_starts_from_the_common_final_count():
    """Every block keeps the same share, and the logits expect just that."""
    own = reducer()
    shares = initial_shares(0.5, 12)
    assert shares[1, :10].tolist() == pytest.approx([0.5 ** (step / 10) for step in range(1, 11)])
    assert shares[1, 10] == 0.5
    assert torch.equal(own.shares, shares.float())
    fractions = 1 - torch.arange(49) / 49
    expected = own.logits.view(2, 11, 49).softmax(dim=-1) @ fractions
    torch.testing.assert_close(expected, own.shares, rtol=0, atol=1e-4)


def test_phases():
    own = reducer(options=DiffRateOptions(search=0.25, search_lr=30.0))
    own.set_progress(0.2)
    assert own.rates() == PartRates(reducer=30.0, backbone=0.0, head=0.0)
    own.set_progress(0.25)
    assert own.rates() == PartRates(reducer=0.0)
    own.eval().set_progress(0.0)
    assert not own.searching
    assert not reducer(keep_rate=1.0).searching
    given_counts = reducer(options=DiffRateOptions(prune_counts=PRUNE, merge_counts=MERGE))
    assert not given_counts.searching


def test_the_search_leaves_its_counts_behind():
    """A step stores the expected shares, which then decide; the cost term pulls them to the common schedule's cost."""
    encoder = tiny_encoder(
        "diffrate", 0.5, (2, 3), grid=(6, 6), settings={"options": DiffRateOptions(candidates=9)}
    ).train()
    own, images = encoder.reducer, tiny_images(encoder, 2)
    with torch.no_grad():
        own.logits.zero_()
    optimizer = torch.optim.Adam([own.logits], lr=0.1)
    terms = []
    for _ in range(40):
        output = encoder(images)
        terms.append(own.losses(TrainingPass(encoder, output))["cost"])
        optimizer.zero_grad()
        terms[-1].backward()
        optimizer.step()
    assert terms[-1] < 0.05 * terms[0]
    encoder(images)
    candidates = torch.tensor([4.0 * step for step in range(9, 0, -1)])
    expected = own.logits.detach().view(2, 3, 9).softmax(dim=-1) @ candidates
    torch.testing.assert_close(own.shares * 36, expected, rtol=1e-5, atol=1e-5)
    prune, merge = own.counts(36)
    assert prune[1] == min(36, math.ceil(expected[0, 0]))
    assert merge[1] == max(18, min(prune[1], math.ceil(expected[1, 0])))
    own.set_progress(1.0)
    assert own.losses(TrainingPass(encoder, encoder(images))) == {}


def test_the_cost_is_counted_in_units_of_vit_b():
    """The same shares cost the same in a narrow model: the term does not fade with the width."""
    terms = []
    for width in (16, 48):
        encoder = tiny_encoder("diffrate", 0.5, (2, 3), grid=(6, 6), width=width).train()
        with torch.no_grad():
            encoder.reducer.logits.zero_()
        terms.append(encoder.reducer.losses(TrainingPass(encoder, encoder(tiny_images(encoder, 1))))["cost"].item())
    assert terms[0] == pytest.approx(terms[1], rel=0.2)
    assert terms[0] > 1.0


def test_target_is_the_cost_of_the_common_schedule():
    encoder = public_encoder("diffrate").train()
    own = encoder.reducer
    counts = FixedSchedule(own.settings).schedule(196)
    common = [196] * 2 + [counts[0]] * 3 + [counts[1]] * 3 + [counts[2]] * 4
    output = encoder(public_images())
    search = output.memory["diffrate search"]
    with torch.no_grad():
        search.kept[0].copy_(torch.tensor(common[1:]))
        search.kept[1].copy_(torch.tensor(common[1:]))
    assert own.losses(TrainingPass(encoder, output))["cost"].item() == pytest.approx(0.0, abs=1e-6)


def test_parameters():
    """Two decisions in each block from the second on; inference reads the counts alone."""
    own = reducer(width=768)
    assert own.added_parameters(training=True) == 2 * 11 * 49
    assert own.added_parameters() == 0


def test_refused():
    with pytest.raises(UserError, match="class token"):
        reducer(class_token=False)
    with pytest.raises(UserError, match="needs a model with two"):
        reducer(depth=1, layers=(1,))
    own = reducer(options=DiffRateOptions(prune_counts=PRUNE[:5], merge_counts=MERGE[:5]))
    with pytest.raises(UserError, match="end at 155 patches, but the keep rate asks for 98"):
        own.counts(196)
