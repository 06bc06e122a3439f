"""Cosines as integers: right, and exactly the same however they are computed."""

from __future__ import annotations

import pytest
import torch

from tap.criteria.cosines import UNIT, cosines


@pytest.mark.parametrize("width", [1, 48, 768])
def test_against_double_precision(width: int) -> None:
    vectors = torch.randn(2, 20, width)
    unit = vectors.double() / vectors.double().norm(dim=2, keepdim=True)
    torch.testing.assert_close(cosines(vectors).double() / UNIT, unit @ unit.transpose(1, 2), rtol=0, atol=4e-8)


def test_blocks_batches_and_threads_do_not_matter() -> None:
    vectors = torch.randn(3, 70, 100)
    whole = cosines(vectors)
    assert torch.equal(whole, whole.transpose(1, 2))
    assert torch.equal(cosines(vectors, rows=7), whole)
    order = torch.randperm(70)
    assert torch.equal(cosines(vectors[1:2, order]), whole[1:2, order][:, :, order])
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(threads, 2))
    try:
        assert torch.equal(cosines(vectors), whole)
    finally:
        torch.set_num_threads(threads)


def test_copies_at_any_scale_are_the_same_patch() -> None:
    directions = torch.randint(-9, 10, (1, 5, 40)).double()
    scale = torch.tensor([1.0, 3.0, 0.1, 1e-4, 7e5], dtype=torch.float64)
    copies = (directions.unsqueeze(2) * scale.view(1, 1, 5, 1)).flatten(1, 2)
    matrix = cosines(copies).unflatten(2, (5, 5)).unflatten(1, (5, 5))
    assert (matrix == matrix[:, :, :1, :, :1]).all()
    assert (matrix.diagonal(dim1=1, dim2=3) == UNIT).all()


def test_a_zero_vector_is_like_nothing() -> None:
    vectors = torch.randn(1, 4, 6)
    vectors[0, 2] = 0
    assert cosines(vectors)[0, 2].tolist() == [0, 0, 0, 0]
