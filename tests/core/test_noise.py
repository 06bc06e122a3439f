from math import pi

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.core.noise import gumbel_like, stateless_uniform

small = settings(deadline=None, max_examples=30, derandomize=True)
WORD = 2**64


def slow_mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def slow_uniform(seed: int, sample: int, layer: int, position: int) -> float:
    """The generator in unsigned Python integers."""
    golden = 0x9E3779B97F4A7C15
    state = slow_mix((sample + seed * 0xD1342543DE82EF95) % WORD)
    state = slow_mix((state + (layer + 1) * golden) % WORD)
    return (slow_mix((state + (position + 1) * golden) % WORD) >> 11) / 2**53


def test_the_finaliser_is_splitmix64() -> None:
    """First output of the published generator for seed 1234567."""
    assert slow_mix((1234567 + 0x9E3779B97F4A7C15) % WORD) == 6457827717110365317


@small
@given(
    seed=st.integers(-(2**70), 2**70),
    samples=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    layer=st.integers(0, 64),
    n=st.integers(1, 9),
)
def test_matches_unsigned_arithmetic(seed: int, samples: list[int], layer: int, n: int) -> None:
    values = stateless_uniform(seed, torch.tensor(samples), layer, n)
    assert values.dtype == torch.float64
    expected = [[slow_uniform(seed, sample, layer, position) for position in range(n)] for sample in samples]
    assert values.tolist() == expected


def test_a_draw_ignores_batch_length_and_global_state() -> None:
    ids = torch.tensor([7, 123456, 0, 59999])
    values = stateless_uniform(5, ids, 3, 64)
    state = torch.get_rng_state()
    torch.manual_seed(99)
    assert torch.equal(stateless_uniform(5, ids.flip(0), 3, 64), values.flip(0))
    assert torch.equal(stateless_uniform(5, ids[1:2], 3, 10), values[1:2, :10])
    torch.set_rng_state(state)
    assert torch.equal(torch.get_rng_state(), state)


def test_names_give_unrelated_uniform_streams() -> None:
    """Seeds, samples and layers that differ by one: uniform in 16 bins, and no correlation between neighbours."""
    ids = torch.arange(200)
    streams = torch.stack([stateless_uniform(seed, ids, layer, 64) for seed in (0, 1) for layer in (3, 6)])
    assert streams.min() >= 0
    assert streams.max() < 1
    assert streams.unique().numel() == streams.numel()
    for stream in streams:
        counts = torch.histc(stream, 16, 0, 1)
        chi_square = ((counts - stream.numel() / 16) ** 2 / (stream.numel() / 16)).sum()
        assert chi_square < 45  # 15 degrees of freedom: exceeded once in 13,000
    centred = streams - 0.5
    limit = 5 / 12 / streams[0].numel() ** 0.5  # five standard deviations of a mean of products
    neighbours = [
        centred[0] * centred[1],
        centred[0] * centred[2],
        centred[:, :, 1:] * centred[:, :, :-1],
        centred[:, 1:] * centred[:, :-1],
    ]
    for products in neighbours:
        assert products.mean().abs() < limit


def test_gumbel_samples_have_the_standard_moments() -> None:
    samples = gumbel_like(torch.empty(300, 1000, dtype=torch.bfloat16), torch.Generator().manual_seed(3))
    assert samples.dtype == torch.float32
    assert samples.isfinite().all()
    assert samples.mean().item() == pytest.approx(0.5772157, abs=0.015)
    assert samples.var().item() == pytest.approx(pi**2 / 6, rel=0.02)
    below_zero = (samples < 0).double().mean().item()
    assert below_zero == pytest.approx(0.36788, abs=0.005)  # exp(-exp(0))


def test_gumbel_follows_its_generator() -> None:
    scores = torch.zeros(2, 9)
    first = gumbel_like(scores, torch.Generator().manual_seed(1))
    assert torch.equal(first, gumbel_like(scores, torch.Generator().manual_seed(1)))
    assert not torch.equal(first, gumbel_like(scores, torch.Generator().manual_seed(2)))
