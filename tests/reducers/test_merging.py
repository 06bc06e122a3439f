"""Merging of tokens: the public ToMe merge, and plans and sums against plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from public_vit import reference
from tiny_models import tiny_encoder, tiny_images
from torch import Tensor

from tap.config.options.algm import AlgmOptions
from tap.encoder.layout import Layout
from tap.encoder.tokens import Tokens
from tap.reducers.merging import Bipartite, Merged, merge, regroup

CPU = torch.device("cpu")


@pytest.mark.parametrize(("case", "pairs", "prefix"), [(0, 33, 1), (3, 150, 1), (5, 171, 0)])
def test_public_merges(case, pairs, prefix):
    """Rows in the public order; more pairs than half of the tokens are cut; without a class token another order."""
    public = {name[3:]: value for name, value in reference("tome_merge").items() if name.startswith(f"m{case}_")}
    tokens, size = Tokens.dense(public["x"], prefix), public["size"][:, prefix:, 0]
    counts = tokens.layout.counts
    match = Bipartite.match(public["metric"][:, prefix:], prefix)
    plan = match.plan([min(pairs, count // 2) for count in counts], counts, prefix)
    merged, groups = merge(tokens, plan, size), regroup(Merged(size, tokens.index), plan)
    torch.testing.assert_close(merged.rectangle, public["x_merged"], rtol=0, atol=1e-4)
    torch.testing.assert_close(groups.size, public["size_merged"][:, prefix:, 0], rtol=0, atol=1e-4)
    assert torch.equal(groups.holder, public["group_of_input"][:, prefix:].long() - prefix)


def by_loops(
    metric: Tensor, x: Tensor, size: Tensor, pairs: int, prefix: int
) -> tuple[list[Tensor], list[float], list[int]]:
    """One image: states, sizes and holders after merging, in float64 and in the public order."""
    count = len(metric)
    candidates = [column for column in range(count) if (column + prefix) % 2 == 0]
    targets = [column for column in range(count) if (column + prefix) % 2 == 1]
    unit = torch.nn.functional.normalize(metric.float(), dim=1, eps=1e-12)
    best = {}
    for column in candidates:
        cosines = [float(unit[column] @ unit[target]) for target in targets]
        if cosines:
            best[column] = (max(cosines), targets[cosines.index(max(cosines))])
    ranked = sorted(best, key=lambda column: (-best[column][0], column))
    gone = ranked[:pairs]
    stay = [column for column in (candidates if prefix or not best else ranked) if column not in gone] + targets
    stay = stay if pairs else list(range(count))
    states, sizes, holder = [], [], [0] * count
    for place, column in enumerate(stay):
        members = [column] + [other for other in gone if best[other][1] == column]
        weight = [float(size[member]) for member in members]
        states.append(sum(w * x[member] for w, member in zip(weight, members, strict=True)) / sum(weight))
        sizes.append(sum(weight))
        for member in members:
            holder[member] = place
    return states, sizes, holder


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    prefix=st.integers(0, 3),
    share=st.floats(0, 1),
    seed=st.integers(0, 999),
)
def test_ragged_batches(counts, prefix, share, seed):
    """Every image gets what it gets alone, whatever the lengths of the others and of the prefix."""
    torch.manual_seed(seed)
    layout = Layout.build(prefix, counts, CPU)
    index = torch.minimum(torch.arange(layout.width), layout.counts_tensor[:, None] - 1)
    tokens = Tokens(torch.randn(layout.rows, 4, dtype=torch.float64), layout, index)
    metric, size = torch.randn(len(counts), layout.width, 3), torch.randint(1, 5, (len(counts), layout.width)).float()
    pairs = [int(share * (count // 2)) for count in counts]
    plan = Bipartite.match(metric, prefix, layout.valid).plan(pairs, counts, prefix)
    merged, groups = merge(tokens, plan, size), regroup(Merged(size, index), plan)
    states = tokens.grid(tokens.x)
    for image, count in enumerate(counts):
        expected = by_loops(metric[image, :count], states[image], size[image], pairs[image], prefix)
        left = count - pairs[image]
        assert merged.layout.counts[image] == left
        torch.testing.assert_close(merged.grid(merged.x)[image, :left], torch.stack(expected[0]), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(groups.size[image, :left], torch.tensor(expected[1]))
        assert groups.holder[image, :count].tolist() == expected[2]
        for column in range(prefix):
            own, other = layout.prefix_rows(column)[image], merged.layout.prefix_rows(column)[image]
            assert torch.equal(tokens.x[own], merged.x[other])


@pytest.mark.parametrize("prefix", [0, 1])
def test_nothing_to_merge_is_the_identity(prefix):
    """Alone and beside an image that merges: its rows stay where they are."""
    metric = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    for removals in ([0, 0], [0, 2]):
        plan = Bipartite.match(metric, prefix).plan(removals, (6, 6), prefix)
        assert plan.order[0].tolist() == list(range(6))
    tokens = Tokens.dense(torch.randn(2, prefix + 6, 4), prefix)
    nothing = Bipartite.match(metric, prefix).plan([0, 0], (6, 6), prefix)
    assert torch.equal(merge(tokens, nothing).x, tokens.x)


@pytest.mark.parametrize("method", ["tome", "algm", "diffrate"])
def test_the_trace_says_which_token_holds_a_position(method):
    given = {"options": AlgmOptions(local_block=1, global_blocks=(3,), threshold=0.5)} if method == "algm" else {}
    encoder = tiny_encoder(method, 0.5, grid=(4, 4), seed=2, settings=given)
    with torch.no_grad():
        output = encoder(tiny_images(encoder, 3), torch.arange(3), return_trace=True)
    trace, before = output.trace, torch.arange(16).expand(3, -1)
    assert trace.holder.keys() <= trace.kept.keys()
    assert trace.holder
    for layer, holder in sorted(trace.holder.items()):
        kept = trace.kept[layer]
        for image in range(3):
            present = holder[image][holder[image] >= 0]
            assert set(present.tolist()) == set(trace.kept_indices(layer)[image].tolist())
            assert torch.equal(holder[image][kept[image]], kept[image].nonzero()[:, 0])  # named after one that it holds
            for group in before[image].unique():  # what was together stays together
                assert len(holder[image][before[image] == group].unique()) == 1
            removed = (holder[image] < 0).any()
            assert bool(removed) == (method == "diffrate")
        before = holder
    if method != "diffrate":
        columns = output.memory["merged"].holder
        assert torch.equal(output.tokens.index.gather(1, columns), before)


def test_equal_weights_and_gradients():
    """Without weights the plain mean; gradients reach every member with its share."""
    x = torch.randn(1, 4, 2, dtype=torch.float64, requires_grad=True)
    metric = torch.tensor([[[1.0, 0], [1, 0], [0.9, 0.1], [0, 1]]])
    plan = Bipartite.match(metric, 0).plan([2], (4,), 0)
    merged = merge(Tokens.dense(x, 0), plan)
    torch.testing.assert_close(merged.x[0], (x[0, 0] + x[0, 1] + x[0, 2]) / 3, rtol=1e-6, atol=1e-6)
    merged.x[0].sum().backward()
    torch.testing.assert_close(x.grad[0, :3], torch.full((3, 2), 1 / 3, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prefix", [0, 1])
def test_bias_of_proportional_attention(prefix):
    for counts in ([3, 3], [2, 3, 1]):
        layout = Layout.build(prefix, counts, CPU)
        index = torch.minimum(torch.arange(layout.width), layout.counts_tensor[:, None] - 1)
        tokens = Tokens(torch.zeros(layout.rows, 1), layout, index)
        size = torch.arange(1.0, 1 + len(counts) * layout.width).view(len(counts), -1)
        bias = Merged(size, None).bias(tokens)
        for image, count in enumerate(counts):
            start = int(layout.starts[image])
            expected = torch.cat([torch.zeros(prefix), size[image, :count].log()])
            assert torch.equal(bias[start : start + prefix + count], expected)
