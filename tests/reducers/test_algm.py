"""ALGM: the public values of both merges, odd grids, and thresholds of single images."""

from __future__ import annotations

import pytest
import torch
from public_vit import reference
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.algm import AlgmOptions
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.reducers.algm import exceeding, global_plan, local_plan, window_similarity
from tap.reducers.base import ReducerSettings
from tap.reducers.merging import Bipartite, Merged, merge, regroup
from tap.reducers.registry import get


def test_public_local_merge():
    public = reference("algm")
    tokens = Tokens.dense(public["local0_x"], 1)
    before = Merged(torch.ones(1, 256), tokens.index)
    plan = local_plan(tokens.rectangle[:, 1:], (16, 16), torch.tensor(0.7))
    merged, after = merge(tokens, plan, before.size), regroup(before, plan)
    torch.testing.assert_close(merged.rectangle, public["local0_y"], rtol=0, atol=1e-4)
    assert torch.equal(after.size, public["local0_size"][:, 1:, 0])
    assert torch.equal(after.holder, public["local0_group_of_input"][:, 1:].long() - 1)


@pytest.mark.parametrize(("threshold", "counts"), [(0.7, (64, 187)), (0.94, (64, 256))])
def test_images_of_a_batch_keep_their_own_local_counts(threshold, counts):
    """The public code takes the smallest number of windows of the batch; the counts are those of single images."""
    x = reference("algm")["global_x"]
    assert local_plan(x[:, 1:], (16, 16), torch.tensor(threshold)).counts == counts


def test_public_global_merge():
    """With the nine pairs that the public code's batch has, and with each image's own number."""
    public = reference("algm")
    tokens = Tokens.dense(public["global_y"], 1)
    before = Merged(public["global_ysize"][:, 1:, 0], public["global_src_group"][:, 1:].long() - 1)
    match = Bipartite.match(tokens.rectangle[:, 1:], 1)
    plan = match.plan([9, 9], (187, 187), 1)
    merged, after = merge(tokens, plan, before.size), regroup(before, plan)
    torch.testing.assert_close(merged.rectangle, public["global_l5_z"], rtol=0, atol=1e-4)
    torch.testing.assert_close(after.size, public["global_l5_size"][:, 1:, 0], rtol=0, atol=1e-4)
    assert torch.equal(after.holder, public["global_l5_group_of_input"][:, 1:].long() - 1)
    for layer, counts in ((5, (144, 147)), (7, (140, 143))):
        assert global_plan(tokens, tokens.rectangle[:, 1:], layer).counts == counts


def test_window_similarity_is_the_mean_over_pairs():
    patches = torch.randn(2, 6, 5, dtype=torch.float64)
    window = torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]])
    found = window_similarity(patches, window)
    for image in range(2):
        for number, members in enumerate(window.tolist()):
            cosines = [
                float(torch.cosine_similarity(patches[image, one], patches[image, other], dim=0))
                for one in members
                for other in members
                if one != other
            ]
            assert found[image, number].item() == pytest.approx(sum(cosines) / 12, abs=1e-6)


def test_the_global_threshold_is_that_of_the_image():
    similarity = torch.randn(3, 9)
    similarity[1, 5:] = float("-inf")  # padding
    similarity[2, 1:] = float("-inf")
    found = exceeding(similarity, 4)
    for image, count in enumerate((9, 5)):
        own = similarity[image, :count]
        expected = own >= own.mean() + own.std() / 4
        assert torch.equal(found[image, :count], expected)
        assert not found[image, count:].any()
    assert not found[2].any(), "a single candidate has no deviation"


@pytest.mark.parametrize("grid", [(5, 7), (3, 4), (4, 3), (1, 6), (5, 1)])
def test_odd_grids(grid):
    """A last odd row or column stays patch by patch; positions still get the token that holds them."""
    options = AlgmOptions(local_block=1, global_blocks=(3,), threshold=-1.0)  # every window
    encoder = tiny_encoder("algm", 0.5, reads=(1, 4), grid=grid, settings={"options": options})
    with torch.no_grad():
        output = encoder(tiny_images(encoder, 2), return_trace=True)
    patches, windows = grid[0] * grid[1], (grid[0] // 2) * (grid[1] // 2)
    assert output.trace.removed[1].tolist() == [3 * windows] * 2
    first = output.grids[0].view(2, *grid, -1)
    even = first[:, : grid[0] // 2 * 2, : grid[1] // 2 * 2]
    for row in (0, 1):
        for column in (0, 1):
            assert torch.equal(even[:, row::2, column::2], even[:, ::2, ::2])
    assert len(first[0].flatten(0, 1).unique(dim=0)) == patches - 3 * windows
    merged = output.memory["merged"]
    for image, count in enumerate(output.final_counts):
        assert merged.size[image, :count].sum() == patches
        assert torch.equal(merged.holder[image].bincount(minlength=count).float(), merged.size[image, :count])


def test_a_higher_threshold_leaves_more():
    """What calibration relies on."""
    options = AlgmOptions(local_block=1, global_blocks=(3,))
    encoder = tiny_encoder("algm", 0.5, grid=(6, 6), settings={"options": options})
    images, means = tiny_images(encoder, 4), []
    for threshold in (-1.0, 0.4, 0.5, 0.6, 1.0):
        encoder.reducer.threshold.fill_(threshold)
        with torch.no_grad():
            means.append(sum(encoder(images).final_counts) / 4)
    assert means == sorted(means)
    assert means[0] < means[2] < means[-1]


def test_refused():
    with pytest.raises(UserError, match="block 5 does not exist in a model with 4 blocks"):
        get("algm")(ReducerSettings(48, 4, layers=(1,)))
