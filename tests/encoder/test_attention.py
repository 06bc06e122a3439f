"""Attention of packed sequences equals attention of one image at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tap.encoder.attention import (
    attend,
    class_attention,
    incoming_attention,
    kernel_name,
    mean_incoming_attention,
    soft_attention,
)
from tap.encoder.layout import Layout

CPU = torch.device("cpu")


def layouts(prefix: int, counts: list[int]) -> list[Layout]:
    """Rows by length, as on a CPU, and in batch order, as on a GPU."""
    return [
        Layout.build(prefix, counts, CPU),
        Layout(prefix, tuple(counts), tuple(range(len(counts))), CPU),
    ]


def rows_of(layout: Layout, image: int) -> Tensor:
    """Rows of one image, from the layout's definition."""
    start = 0
    for other in layout.order:
        length = layout.counts[other] + layout.prefix
        if other == image:
            return torch.arange(start, start + length)
        start += length
    raise AssertionError(image)


def softmax_attention(query: Tensor, key: Tensor) -> Tensor:
    """(H, S, S) attention of one image's `(S, H, d)` rows."""
    return (torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5).softmax(dim=-1)


@settings(deadline=None, max_examples=25)
@given(prefix=st.integers(0, 2), counts=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_packed_equals_per_image(prefix, counts, seed):
    torch.manual_seed(seed)
    for layout in layouts(prefix, counts):
        query, key, value = torch.randn(3, layout.rows, 2, 4, dtype=torch.float64)
        out = attend(query, key, value, layout)
        assert out.shape == (layout.rows, 8)
        for image in range(len(counts)):
            rows = rows_of(layout, image)
            expected = torch.einsum("hqk,khd->qhd", softmax_attention(query[rows], key[rows]), value[rows])
            torch.testing.assert_close(out[rows], expected.flatten(1))


@settings(deadline=None, max_examples=25)
@given(prefix=st.integers(0, 2), counts=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_bias_of_keys(prefix, counts, seed):
    """A key with the logarithm of n counts as n equal keys."""
    torch.manual_seed(seed)
    for layout in layouts(prefix, counts):
        query, key, value = torch.randn(3, layout.rows, 2, 4, dtype=torch.float64)
        times = torch.randint(1, 4, (layout.rows,))
        out = attend(query, key, value, layout, bias=times.double().log())
        for image in range(len(counts)):
            rows = rows_of(layout, image)
            again = rows.repeat_interleave(times[rows])
            weights = (torch.einsum("qhd,khd->hqk", query[rows], key[again]) / 2).softmax(dim=-1)
            torch.testing.assert_close(out[rows], torch.einsum("hqk,khd->qhd", weights, value[again]).flatten(1))


def test_soft_attention():
    """Weights 1 and 0: the attention among the marked rows, and of the others with themselves as well."""
    query, key, value = torch.randn(3, 2, 5, 2, 4)
    policy = torch.tensor([[1.0, 0, 1, 1, 0], [1, 1, 1, 1, 1]])
    bias = torch.randn(2, 5)
    out, weights = soft_attention(query, key, value, policy, bias)
    for image in range(2):
        for row in range(5):
            seen = sorted({*policy[image].nonzero().flatten().tolist(), row})
            logits = torch.einsum("hd,khd->hk", query[image, row], key[image, seen]) / 2 + bias[image, seen]
            expected = torch.zeros(2, 5).index_copy(1, torch.tensor(seen), logits.softmax(dim=-1))
            torch.testing.assert_close(weights[image, :, row], expected, rtol=0, atol=1e-5)
            attended = torch.einsum("hk,khd->hd", expected, value[image]).flatten()
            torch.testing.assert_close(out.view(2, 5, 8)[image, row], attended, rtol=0, atol=1e-4)


def test_soft_attention_learns_its_weights():
    query, key, value = torch.randn(3, 1, 4, 2, 4)
    policy = torch.tensor([[1.0, 1, 0, 1]], requires_grad=True)
    soft_attention(query, key, value, policy)[0].square().sum().backward()
    assert policy.grad.all(), "a masked key as well"


@settings(deadline=None, max_examples=25)
@given(prefix=st.integers(0, 2), counts=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_layout_indices(prefix, counts):
    for layout in layouts(prefix, counts):
        assert layout.rows == sum(counts) + prefix * len(counts)
        assert sorted(layout.order) == list(range(len(counts)))
        lengths = [counts[image] + prefix for image in layout.order]
        assert layout.cu_seqlens.tolist() == [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        assert layout.cu_seqlens.dtype == torch.int32
        assert [length for images, length in layout.runs for _ in range(images)] == lengths
        patches = []
        for image, count in enumerate(counts):
            rows = rows_of(layout, image)
            assert (layout.image[rows] == image).all()
            assert all(layout.prefix_rows(column)[image] == rows[column] for column in range(prefix))
            cells = layout.grid_rows[image].tolist()
            assert cells[:count] == rows[prefix:].tolist()
            assert set(cells[count:]) <= {rows[-1].item()}
            if layout.valid is not None:
                assert layout.valid[image].tolist() == [column < count for column in range(max(counts))]
            patches += rows[prefix:].tolist()
        assert (layout.valid is None) == (len(set(counts)) == 1)
        assert layout.patch_rows.tolist() == patches


def test_gradients_reach_every_image():
    layout = Layout.build(1, [3, 1, 2, 3], CPU)
    query, key, value = (torch.randn(layout.rows, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, layout), (query, key, value))


@pytest.mark.parametrize("chunk", [1, 3, 256])
def test_mean_incoming_attention_against_loops(chunk):
    query, key = torch.randn(2, 3, 7, 2, 4)
    valid = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6], dtype=torch.bool)
    scores = mean_incoming_attention(query, key, valid, chunk)
    for image in range(3):
        real = valid[image]
        weights = softmax_attention(query[image, real], key[image, real])
        torch.testing.assert_close(scores[image, real], weights.mean(dim=(0, 1)))
        assert not scores[image, ~real].any()
    torch.testing.assert_close(scores.sum(dim=1), torch.ones(3))
    torch.testing.assert_close(mean_incoming_attention(query[:1], key[:1], None, chunk), scores[:1])


@pytest.mark.parametrize("chunk", [1, 3, 256])
def test_mean_and_maximum_of_one_pass(chunk):
    query, key = 3 * torch.randn(2, 3, 7, 2, 4)
    mean, largest = incoming_attention(query, key, chunk)
    assert torch.equal(mean, mean_incoming_attention(query, key, None, chunk))
    for image in range(3):
        weights = softmax_attention(query[image], key[image])
        for position in range(7):
            received = [row[position] for head in weights.tolist() for row in head]
            assert largest[image, position].item() == pytest.approx(max(received), rel=1e-5)


def test_class_attention_is_the_first_row():
    query, key = torch.randn(2, 3, 7, 2, 4)
    scores = class_attention(query[:, 0], key)
    for image in range(3):
        torch.testing.assert_close(scores[image], softmax_attention(query[image], key[image])[:, 0].mean(dim=0))


@pytest.mark.parametrize("score", ["class", "mean"])
def test_scores_are_float32_under_autocast(score):
    """bfloat16 products would round neighbouring patches to one score."""
    query, key = torch.randn(2, 2, 9, 3, 16).bfloat16()

    def run() -> Tensor:
        return class_attention(query[:, 0], key) if score == "class" else mean_incoming_attention(query, key)

    plain = run()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(), plain)
    assert plain.dtype == torch.float32


def test_the_kernel_s_name_says_what_runs():
    assert "varlen" in kernel_name(torch.device("cuda"), torch.bfloat16)
    assert "varlen" not in kernel_name(torch.device("cuda"), torch.float32)
    assert "varlen" not in kernel_name(CPU, torch.bfloat16)
