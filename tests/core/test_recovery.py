import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tap.core.recovery import buffer_bytes, reconstruct, removal_offset, resolve_pointers

small = settings(deadline=None, max_examples=30, derandomize=True)


class History:
    """A pruning history of one image in plain Python: who left at which layer, and who stood in."""

    def __init__(self, patches: int, layers: int, width: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.patches, self.layers = patches, layers
        self.pointer: dict[int, int] = {}
        self.layer: dict[int, int] = {}
        self.alpha = torch.rand(layers, generator=generator, dtype=torch.float64)
        self.features = torch.randn(layers + 1, patches, width, generator=generator, dtype=torch.float64)
        alive = list(range(patches))
        for layer in range(layers):
            order = torch.randperm(len(alive), generator=generator).tolist()
            removals = int(torch.randint(0, len(alive), (), generator=generator))
            gone = [alive[i] for i in order[:removals]]
            alive = sorted(set(alive) - set(gone))
            for position in gone:
                self.layer[position] = layer
                self.pointer[position] = alive[int(torch.randint(0, len(alive), (), generator=generator))]
        self.alive = alive

    def endpoint(self, position: int) -> int:
        while position in self.pointer:
            position = self.pointer[position]
        return position

    def dense_grid(self) -> Tensor:
        """Eq. 3 at the last read point, position by position."""
        rows = []
        for position in range(self.patches):
            if position not in self.pointer:
                rows.append(self.features[-1, position])
                continue
            then = self.features[self.layer[position]]
            offset = then[position] - then[self.pointer[position]]
            rows.append(self.features[-1, self.endpoint(position)] + self.alpha[self.layer[position]] * offset)
        return torch.stack(rows)


def recover(histories: list[History], dtype: torch.dtype = torch.float64) -> Tensor:
    """The same with the functions under test, for a batch, from buffers by original position."""
    batch, patches = len(histories), histories[0].patches
    width = histories[0].features.shape[-1]
    pointer = torch.arange(patches, dtype=torch.int32).repeat(batch, 1)
    grid = torch.full((batch, patches, width), float("nan"), dtype=dtype)
    records: list[tuple[int, int, Tensor, Tensor]] = []
    for image, history in enumerate(histories):
        grid[image, history.alive] = history.features[-1, history.alive].to(dtype)
        for position, stand_in in history.pointer.items():
            pointer[image, position] = stand_in
            then = history.features[history.layer[position]].to(dtype)
            offset = removal_offset(then[position : position + 1], then[stand_in : stand_in + 1])
            records.append((image, position, offset, history.alpha[history.layer[position]].to(dtype)))
    endpoint = resolve_pointers(pointer, histories[0].layers - 1)
    assert endpoint.dtype == torch.int64
    for image, position, offset, alpha in records:
        survivor = endpoint[image, position]
        assert int(survivor) in histories[image].alive
        grid[image, position] = reconstruct(grid[image, survivor][None], offset, alpha[None])[0]
    return grid


@small
@given(patches=st.integers(1, 24), layers=st.integers(1, 6), seed=st.integers(0, 9999))
def test_recovery_matches_the_position_by_position_version(patches: int, layers: int, seed: int) -> None:
    histories = [History(patches, layers, 3, seed + image) for image in range(2)]
    dense = recover(histories)
    for image, history in enumerate(histories):
        torch.testing.assert_close(dense[image], history.dense_grid(), rtol=0, atol=1e-12)
        assert torch.equal(dense[image, history.alive], history.features[-1, history.alive])


@pytest.mark.parametrize("layers", range(1, 10))
def test_the_longest_chain_resolves(layers: int) -> None:
    """One patch removed per layer, each standing in for the one before: M - 1 links after the first pointer."""
    pointer = torch.tensor([[*range(1, layers + 1), layers]], dtype=torch.int32)
    assert resolve_pointers(pointer, layers - 1).tolist() == [[layers] * (layers + 1)]


def test_half_precision_records() -> None:
    histories = [History(12, 3, 4, seed) for seed in range(3)]
    dense = recover(histories, torch.bfloat16)
    assert dense.dtype == torch.bfloat16
    expected = torch.stack([history.dense_grid() for history in histories])
    torch.testing.assert_close(dense.double(), expected, rtol=0.03, atol=0.05)


def test_offsets_in_bfloat16_leave_the_grid_in_float32() -> None:
    endpoint, offset, scale = torch.randn(1, 2), torch.ones(1, 2, dtype=torch.bfloat16), torch.tensor([0.25])
    restored = reconstruct(endpoint, offset, scale)
    assert restored.dtype == torch.float32
    assert reconstruct(endpoint.bfloat16(), offset, scale).dtype == torch.bfloat16
    assert torch.equal(restored, endpoint + 0.25)


def test_gradients_match_finite_differences() -> None:
    """Through removed feature, stand-in, endpoint and scale; the pointers are integers."""
    endpoint, stand_in, columns = torch.tensor([3, 3, 0]), torch.tensor([3, 4, 0]), torch.tensor([1, 2, 4])

    def dense(then: Tensor, now: Tensor, scale: Tensor) -> Tensor:
        return reconstruct(now[endpoint], removal_offset(then[columns], then[stand_in]), scale)

    then, now = (torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    scale = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(dense, (then, now, scale))
    to_then, to_now, to_scale = torch.autograd.grad(dense(then, now, scale).sum(), (then, now, scale))
    assert torch.equal(to_now[:, 0], torch.tensor([1.0, 0, 0, 2, 0], dtype=torch.float64))
    assert (to_then[columns] != 0).all()
    assert (to_then[3] != 0).all()
    assert (to_scale != 0).all()


@pytest.mark.parametrize("removed", [0, 1, 98])
def test_buffer_bytes_are_what_the_records_take(removed: int) -> None:
    offsets = torch.empty(removed, 768, dtype=torch.bfloat16)
    pointers = torch.empty(removed, dtype=torch.int32)
    scales = torch.empty(3, dtype=torch.bfloat16)
    assert buffer_bytes(removed, 768, 3) == offsets.nbytes + pointers.nbytes + scales.nbytes
    assert buffer_bytes(removed, 768, 3, scalar_bytes=4, pointer_bytes=8) == removed * (768 * 4 + 8) + 12
