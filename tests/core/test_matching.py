from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.core import matching
from tap.core.matching import cosine_stand_ins, random_stand_ins, spatial_stand_ins, top_score_stand_in

small = settings(deadline=None, max_examples=30, derandomize=True)


def slow_cosines(removed: list[float], kept: list[list[float]]) -> list[float]:
    """Normalised products of one removed key with every retained one, in Python floats (Eq. 2)."""

    def unit(key: list[float]) -> list[float]:
        norm = max(sqrt(sum(value * value for value in key)), 1e-6)
        return [value / norm for value in key]

    return [sum(a * b for a, b in zip(unit(removed), unit(key), strict=True)) for key in kept]


@st.composite
def key_sets(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys from a few directions, so that copies and rescaled copies are common."""
    batch, removed, kept = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9999)))
    directions = torch.randn(4, 5, generator=generator)
    scales = torch.tensor([0.5, 1.0, 4.0])

    def keys(rows: int) -> torch.Tensor:
        which = torch.randint(0, 4, (batch, rows), generator=generator)
        scale = scales[torch.randint(0, 3, (batch, rows), generator=generator)]
        return directions[which] * scale.unsqueeze(2)

    valid = torch.rand(batch, kept, generator=generator) < 0.7
    valid[:, draw(st.integers(0, kept - 1))] = True
    return keys(removed), keys(kept), valid


@small
@given(key_sets())
def test_the_stand_in_has_the_largest_cosine(case: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    removed, kept, valid = case
    pointer = cosine_stand_ins(removed, kept, valid)
    assert pointer.dtype == torch.int64
    for image in range(removed.shape[0]):
        for row in range(removed.shape[1]):
            cosines = slow_cosines(removed[image, row].tolist(), kept[image].tolist())
            real = [column for column in range(kept.shape[1]) if valid[image, column]]
            best = max(cosines[column] for column in real)
            assert pointer[image, row] == next(column for column in real if cosines[column] > best - 1e-6)


def test_close_keys_match_double_precision() -> None:
    """Cosines about 1e-4 apart, which half precision would confuse."""
    removed, kept = torch.randn(3, 40, 48), torch.randn(3, 1, 48) + 0.003 * torch.randn(3, 60, 48)
    exact = torch.nn.functional.normalize(removed.double(), dim=2) @ torch.nn.functional.normalize(
        kept.double(), dim=2
    ).transpose(1, 2)
    assert torch.equal(cosine_stand_ins(removed, kept), exact.argmax(dim=2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copies_of_a_key_tie_whatever_the_matrix_kernel_does(dtype: torch.dtype) -> None:
    """Column 0, the middle and the end of a row go through different code in a matrix product."""
    for kept_count in (7, 33, 67, 90, 129):
        kept = torch.randn(2, kept_count, 100).to(dtype)
        removed = torch.randn(2, 31, 100).to(dtype)
        groups = torch.arange(kept_count) % 5
        pointer = cosine_stand_ins(removed, kept[:, groups])
        assert pointer.max() < 5


def test_a_match_ignores_the_batch() -> None:
    kept, removed = torch.randn(5, 77, 64)[:, torch.arange(77) % 20], torch.randn(5, 30, 64)
    whole = cosine_stand_ins(removed, kept)
    for image in range(5):
        assert torch.equal(cosine_stand_ins(removed[image : image + 1], kept[image : image + 1])[0], whole[image])


def test_distinct_matches_follow_a_permutation_of_the_retained() -> None:
    kept, removed, order = torch.randn(1, 25, 16), torch.randn(1, 10, 16), torch.randperm(25)
    assert torch.equal(order[cosine_stand_ins(removed, kept[:, order])], cosine_stand_ins(removed, kept))


def test_autocast_does_not_round_the_match() -> None:
    kept = torch.nn.functional.normalize(torch.randn(1, 1, 32), dim=2) + 2e-3 * torch.randn(1, 60, 32)
    removed = torch.randn(1, 40, 32)
    plain = cosine_stand_ins(removed, kept)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(cosine_stand_ins(removed, kept), plain)


def test_zero_keys_match_the_first_column() -> None:
    kept = torch.randn(1, 4, 3)
    assert cosine_stand_ins(torch.zeros(1, 2, 3), kept).tolist() == [[0, 0]]
    kept[0, 0] = 0
    assert cosine_stand_ins(-kept[:, 1:2], kept[:, :2]).tolist() == [[0]]


def test_nothing_removed_gives_no_pointer() -> None:
    assert cosine_stand_ins(torch.zeros(2, 0, 3), torch.randn(2, 4, 3)).shape == (2, 0)


@small
@given(width=st.integers(1, 7), height=st.integers(1, 7), seed=st.integers(0, 999))
def test_spatial_nearest_by_euclidean_distance(width: int, height: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    count = width * height
    keep = torch.randint(1, count + 1, (), generator=generator).item()
    order = torch.randperm(count, generator=generator)
    kept, removed = order[:keep].sort().values, order[keep:].sort().values
    valid = torch.rand(keep, generator=generator) < 0.7
    valid[torch.randint(0, keep, (), generator=generator)] = True
    pointer = spatial_stand_ins(removed.unsqueeze(0), kept.unsqueeze(0), width, valid.unsqueeze(0))[0]
    for row, position in enumerate(removed.tolist()):
        distances = {
            column: (position // width - other // width) ** 2 + (position % width - other % width) ** 2
            for column, other in enumerate(kept.tolist())
            if valid[column]
        }
        assert pointer[row] == min(distances, key=lambda column: (distances[column], column))


def test_top_score_takes_the_best_retained_patch() -> None:
    scores = torch.tensor([[0.5, 2.0, 2.0, 9.0], [-0.0, 0.0, -1.0, float("nan")]]).bfloat16()
    valid = torch.tensor([[True, True, True, False], [True, True, True, True]])
    assert top_score_stand_in(scores, 3, valid).tolist() == [[1, 1, 1], [0, 0, 0]]
    assert top_score_stand_in(scores[:1], 1).tolist() == [[3]]


def test_random_stand_ins_depend_on_names_only() -> None:
    ids, removed = torch.tensor([11, 12, 13]), torch.tensor([[1, 4, 7], [0, 2, 9], [3, 5, 8]])
    valid = torch.tensor([[True, False, True, True], [True] * 4, [False, False, True, False]])
    pointer = random_stand_ins(3, ids, 6, removed, 10, valid)
    assert valid.gather(1, pointer).all()
    assert pointer[2].tolist() == [2, 2, 2]
    order = torch.tensor([2, 0, 1])
    assert torch.equal(random_stand_ins(3, ids[order], 6, removed[order], 10, valid[order]), pointer[order])
    alone = random_stand_ins(3, ids[:1], 6, removed[:1, 1:2], 10, valid[:1])
    assert torch.equal(alone, pointer[:1, 1:2])


def test_random_stand_ins_are_uniform_over_the_retained() -> None:
    ids, removed = torch.arange(500), torch.arange(20).expand(500, 20)
    valid = torch.tensor([True, False, True, True, False, True, True]).expand(500, 7)
    pointer = random_stand_ins(0, ids, 3, removed, 20, valid)
    counts = torch.bincount(pointer.flatten(), minlength=7)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert ((counts[[0, 2, 3, 5, 6]] - 2000).abs() < 200).all()  # five standard deviations
    assert not torch.equal(pointer, random_stand_ins(1, ids, 3, removed, 20, valid))
    assert not torch.equal(pointer, random_stand_ins(0, ids, 6, removed, 20, valid))


@pytest.mark.parametrize("removed", [0, 1, 7])
def test_some_rows_at_a_time_are_all_rows(monkeypatch, removed):
    generator = torch.Generator().manual_seed(3)
    rows, kept = torch.randn(2, removed, 8, generator=generator), torch.randn(2, 5, 8, generator=generator)
    valid = torch.tensor([[True] * 5, [True, True, False, False, False]])
    whole = matching.cosine_stand_ins(rows, kept, valid)
    monkeypatch.setattr(matching, "MATRIX_BYTES", 2 * 4 * 5)
    products = []
    monkeypatch.setattr(torch, "bmm", lambda a, b, real=torch.bmm: (products.append(a.shape[1]), real(a, b))[1])
    assert torch.equal(matching.cosine_stand_ins(rows, kept, valid), whole)
    assert max(products) <= 2
