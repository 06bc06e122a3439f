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
    removed = torch.zeros(batch, patches, dtype=torch.bool)
    offset = torch.zeros(batch, patches, width, dtype=dtype)
    scale = torch.zeros(batch, patches, dtype=dtype)
    grid = torch.full((batch, patches, width), float("nan"), dtype=dtype)
    for image, history in enumerate(histories):
        grid[image, history.alive] = history.features[-1, history.alive].to(dtype)
        for position, stand_in in history.pointer.items():
            pointer[image, position] = stand_in
            removed[image, position] = True
            then = history.features[history.layer[position]].to(dtype).unsqueeze(0)
            one = removal_offset(then[:, position : position + 1], then, torch.tensor([[stand_in]]))
            offset[image, position] = one[0, 0]
            scale[image, position] = history.alpha[history.layer[position]]
    endpoint = resolve_pointers(pointer, histories[0].layers - 1)
    assert endpoint.dtype == torch.int64
    assert not removed.gather(1, endpoint).any()
    return reconstruct(grid, removed, endpoint, offset, scale)


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
    grid = torch.randn(1, 4, 2)
    removed = torch.tensor([[False, True, False, False]])
    offset = torch.zeros(1, 4, 2, dtype=torch.bfloat16)
    offset[0, 1] = 1.0
    endpoint, scale = torch.tensor([[0, 3, 2, 3]]), torch.full((1, 4), 0.25)
    dense = reconstruct(grid, removed, endpoint, offset, scale)
    assert dense.dtype == torch.float32
    assert reconstruct(grid.bfloat16(), removed, endpoint, offset, scale).dtype == torch.bfloat16
    assert torch.equal(dense[0, 1], grid[0, 3] + 0.25)
    assert torch.equal(dense[~removed], grid[~removed])


def test_gradients_match_finite_differences() -> None:
    """Through removed feature, stand-in, endpoint and scale; the pointers are integers."""
    removed = torch.tensor([[False, True, True, False, True]])
    endpoint = torch.tensor([[0, 3, 3, 3, 0]])
    stand_in = torch.tensor([[3, 4, 0]])
    columns = torch.tensor([1, 2, 4])

    def dense(then: Tensor, now: Tensor, scale: Tensor) -> Tensor:
        records = removal_offset(then[:, columns], then, stand_in)
        offset = torch.zeros_like(now).index_copy(1, columns, records)
        return reconstruct(now, removed, endpoint, offset, scale)

    then, now = (torch.randn(1, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    scale = torch.rand(1, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(dense, (then, now, scale))
    to_then, to_now, to_scale = torch.autograd.grad(dense(then, now, scale).sum(), (then, now, scale))
    assert torch.equal(to_now[0, :, 0], torch.tensor([2.0, 0, 0, 3, 0], dtype=torch.float64))
    assert (to_then[0, columns] != 0).all()
    assert (to_then[0, 3] != 0).all()
    assert (to_scale[removed] != 0).all()
    assert not to_scale[~removed].any()


@pytest.mark.parametrize("removed", [0, 1, 98])
def test_buffer_bytes_are_what_the_records_take(removed: int) -> None:
    offsets = torch.empty(removed, 768, dtype=torch.bfloat16)
    pointers = torch.empty(removed, dtype=torch.int32)
    scales = torch.empty(3, dtype=torch.bfloat16)
    assert buffer_bytes(removed, 768, 3) == offsets.nbytes + pointers.nbytes + scales.nbytes
    assert buffer_bytes(removed, 768, 3, scalar_bytes=4, pointer_bytes=8) == removed * (768 * 4 + 8) + 12
