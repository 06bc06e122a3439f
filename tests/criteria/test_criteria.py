"""Every criterion against its reference, with planted ties, whatever the batch."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import pytest
import slow_criteria
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tap.config import methods
from tap.core.budget import keep_count
from tap.criteria.base import ProbeInputs
from tap.criteria.coverage import coverage_order
from tap.criteria.registry import CRITERIA, get
from tap.errors import UserError

PAPER = [
    ("random", "Random", "reference"),
    ("attention_mean", "Attention mean", "attention"),
    ("attention_max", "Attention max", "attention"),
    ("token_l1", r"Activation $\ell_1$", "magnitude"),
    ("token_l2", r"Activation $\ell_2$", "magnitude"),
    ("key_l2", r"Key $\ell_2$", "magnitude"),
    ("coverage", "Coverage", "spatial"),
    ("token_kcenter", "Token k-centre", "diversity"),
    ("key_kcenter", "Key k-centre", "diversity"),
    ("token_redundancy", "Token redundancy", "affinity"),
    ("key_redundancy", "Key redundancy", "affinity"),
]
AFFINE = [name for name in CRITERIA if name.endswith(("_kcenter", "_redundancy"))]


def probe_inputs(
    batch: int = 2, grid: tuple[int, int] = (3, 4), width: int = 6, directions: int = 999, seed: int = 0
) -> ProbeInputs:
    """Random states; a small number of directions plants copies of a patch, some of them at another scale."""
    generator = torch.Generator().manual_seed(seed)
    patches = grid[0] * grid[1]

    def vectors() -> Tensor:
        known = torch.randn(batch, min(directions, patches), width, generator=generator)
        which = torch.arange(patches)
        if directions < patches:
            which = torch.randint(directions, (patches,), generator=generator)
        scale = torch.tensor([0.5, 1.0, 4.0])[torch.randint(3, (patches, 1), generator=generator)]
        return known[:, which] * scale

    def attention() -> Tensor:
        values = torch.rand(batch, patches, generator=generator)
        return values if directions >= patches else (values * directions).floor() / directions

    ids = torch.randint(2**40, (batch,), generator=generator)
    return ProbeInputs(vectors(), vectors(), attention(), attention(), grid, ids, layer=1 + seed % 12, seed=seed)


def images(inputs: ProbeInputs, which: list[int]) -> ProbeInputs:
    """Some images of a batch, in some order."""
    tensors = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return replace(inputs, **{name: value[which] for name, value in tensors.items() if isinstance(value, Tensor)})


def test_the_eleven_rows_of_the_paper() -> None:
    assert tuple(CRITERIA) == methods.CRITERIA, "settings and code name the same criteria"
    assert [(name, row.title, row.family) for name, row in CRITERIA.items()] == PAPER
    assert all(row.name == name and row.summary for name, row in CRITERIA.items())
    assert [name for name, row in CRITERIA.items() if row.needs_attention] == ["attention_mean", "attention_max"]


@pytest.mark.parametrize("name", CRITERIA)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    width=st.integers(2, 7),
    directions=st.sampled_from([1, 2, 4, 999]),
    share=st.floats(0.01, 1.0),
    seed=st.integers(0, 9999),
)
def test_keeps_what_the_rule_says(
    name: str, rows: int, columns: int, width: int, directions: int, share: float, seed: int
) -> None:
    inputs = probe_inputs(2, (rows, columns), width, directions, seed)
    count = keep_count(rows * columns, share)
    kept = get(name).keep(inputs, count)
    assert kept.dtype == torch.int64
    assert kept.shape == (2, count)
    for image in range(2):
        assert kept[image].tolist() == slow_criteria.keep(name, inputs, image, count)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("directions", [9, 999])
def test_an_image_ignores_its_batch(name: str, directions: int) -> None:
    """Wide vectors, so that kernels split their sums in different ways for different batches."""
    inputs = probe_inputs(5, (7, 9), 100, directions)
    kept = get(name).keep(inputs, 30)
    for image in range(5):
        assert torch.equal(get(name).keep(images(inputs, [image]), 30)[0], kept[image])
    assert torch.equal(get(name).keep(images(inputs, [4, 2, 0]), 30), kept[[4, 2, 0]])


@pytest.mark.parametrize("name", CRITERIA)
def test_the_batch_is_not_written_to(name: str) -> None:
    inputs = probe_inputs()
    before = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    copies = {key: value.clone() for key, value in before.items() if isinstance(value, Tensor)}
    first = get(name).keep(inputs, 5)
    assert torch.equal(first, get(name).keep(inputs, 5))
    assert all(torch.equal(before[key], copy) for key, copy in copies.items())


@pytest.mark.parametrize("name", CRITERIA)
def test_everything_and_one_patch(name: str) -> None:
    inputs = probe_inputs()
    assert get(name).keep(inputs, 12).tolist() == [list(range(12))] * 2
    assert get(name).keep(inputs, 1).shape == (2, 1)
    for count in (0, 13):
        with pytest.raises(ValueError, match=f"cannot keep {count} of 12"):
            get(name).keep(inputs, count)


@pytest.mark.parametrize("name", AFFINE)
def test_half_precision_states_and_zero_vectors(name: str) -> None:
    inputs = probe_inputs(2, (4, 4), 8)
    half = replace(inputs, features=inputs.features.bfloat16(), keys=inputs.keys.bfloat16())
    for part in (half.features, half.keys):
        part[:, 3:6] = 0
    for image in range(2):
        assert get(name).keep(half, 7)[image].tolist() == slow_criteria.keep(name, half, image, 7)


@pytest.mark.parametrize("name", CRITERIA)
def test_broken_states_still_give_that_many_patches(name: str) -> None:
    inputs = probe_inputs(2, (4, 4), 8)
    inputs.features[0, 3, 2] = inputs.keys[0, 5] = inputs.mean_attention[0, 1] = float("nan")
    inputs.features[0, 4, 1] = inputs.keys[0, 6, 0] = inputs.max_attention[0, 2] = float("inf")
    inputs.features[1] = inputs.keys[1] = float("nan")
    for row in get(name).keep(inputs, 7).tolist():
        assert len(set(row)) == 7


class CountOperations(TorchDispatchMode):
    """Counts what reaches torch's kernels."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CRITERIA)
def test_no_step_per_image(name: str) -> None:
    """Six copies of an image take as many operations as one."""
    coverage_order((5, 6))  # of a new grid it is made first, once for all images
    counts = []
    for copies in (1, 6):
        with CountOperations() as operations:
            get(name).keep(images(probe_inputs(1, (5, 6)), [0] * copies), 15)
        counts.append(operations.count)
    assert counts[0] == counts[1] > 0


def test_random_depends_on_names_only() -> None:
    rule, inputs = get("random"), probe_inputs(3, (6, 6))
    kept = rule.keep(inputs, 18)
    other = replace(inputs, features=inputs.features + 1, keys=inputs.keys - 1)
    assert torch.equal(rule.keep(other, 18), kept)
    assert not torch.equal(rule.keep(replace(inputs, layer=inputs.layer + 1), 18), kept)
    assert not torch.equal(rule.keep(replace(inputs, seed=1), 18), kept)
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize("name", ["random", "token_l2", "coverage", "token_kcenter", "key_redundancy"])
def test_fewer_patches_are_among_more(name: str) -> None:
    inputs = probe_inputs(2, (5, 5))
    sets = [[set(row) for row in get(name).keep(inputs, count).tolist()] for count in range(1, 26)]
    for smaller, larger in pairwise(sets):
        assert all(few < many for few, many in zip(smaller, larger, strict=True))


def test_an_unknown_name() -> None:
    with pytest.raises(UserError, match=r"'magic' is not known; choose from random, attention_mean, .*key_redundancy"):
        get("magic")
