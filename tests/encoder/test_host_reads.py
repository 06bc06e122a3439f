"""A pass reads one thing back from the device per pruning block: how many patches each image keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tiny_models import LAYERED, common_recovery, tiny_encoder, tiny_images
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode

from tap.config.methods import METHODS
from tap.config.options.algm import AlgmOptions
from tap.config.options.ats import AtsOptions
from tap.config.options.tome import TomeOptions
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder

LAYERS = (2, 3, 4)
RAGGED = {"grid": (4, 5), "seed": 9}
"""Counts of three images differ after the first and after the second pruning block."""
REAL_TOLIST = torch.Tensor.tolist


def host_reads(monkeypatch: pytest.MonkeyPatch, encoder: SparseEncoder, run: Callable[[], object]) -> int:
    """Runs on real tensors and notes what `tolist` gives; then on fake ones, which have no values to read.

    The second run gets the noted lists and raises at any other read.
    """
    noted: list[list[int]] = []

    def note(tensor: torch.Tensor) -> list[int]:
        noted.append(REAL_TOLIST(tensor))
        return noted[-1]

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "tolist", note)
        run()
    replies = iter(noted)
    with monkeypatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True):
        patch.setattr(FakeTensor, "tolist", lambda _tensor: next(replies))
        run()
    assert next(replies, None) is None
    assert not noted or any(len(set(counts)) > 1 for counts in noted), "some counts should differ"
    return len(noted)


@pytest.mark.parametrize("method", ["dense", *LAYERED, "cropr", "dtop", "evovit", "svit"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_at_most_one_read_per_pruning_block(monkeypatch, method, dense, training):
    recovery = common_recovery(method)
    encoder = tiny_encoder(method, 0.4, LAYERS, (2, 3, 4) if dense else (), recovery, **RAGGED)
    encoder.train(training)
    images, ids = tiny_images(encoder, 3), torch.arange(3)
    torch.manual_seed(0)

    def run() -> None:
        torch.manual_seed(0)
        encoder(images, ids, return_trace=True)

    reads = host_reads(monkeypatch, encoder, run)
    assert reads <= len(LAYERS)
    if method == "tap":
        assert reads == len(LAYERS) - 1, "the last block's count is known"
    if not encoder.reducer.method.calibrated and method != "tap":
        assert reads == 0


@pytest.mark.parametrize(
    ("method", "options", "most"),
    [
        ("evit", None, 0),
        ("tome", TomeOptions(proportional=True), 0),
        ("ats", AtsOptions(first_block=2, last_block=3), 2),
        ("algm", AlgmOptions(local_block=2, global_blocks=(3, 4), threshold=0.6), 3),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_methods_with_blocks_of_their_own(monkeypatch, method, options, most, training):
    reads = () if METHODS[method].tasks == ("cls",) else (2, 3, 4)
    given = {"options": options}
    encoder = tiny_encoder(method, 0.4, LAYERS, reads, common_recovery(method), given, **RAGGED).train(training)
    images = tiny_images(encoder, 3)
    assert host_reads(monkeypatch, encoder, lambda: encoder(images, return_trace=True)) <= most


def test_diffrate_reads_its_counts_once(monkeypatch):
    """What a search has left in a buffer, which fake images do not make a fake one; nothing else."""
    encoder = tiny_encoder("diffrate", 0.4, LAYERS, (2, 3, 4), common_recovery("diffrate"), **RAGGED)
    images, read = tiny_images(encoder, 3), []
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: read.append(tensor) or REAL_TOLIST(tensor))
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        encoder(images)
    assert len(read) == 1
    assert read[0] is encoder.reducer.shares


@pytest.mark.parametrize("matching", ["token", "spatial", "score", "random", "final"])
def test_no_matching_rule_reads(monkeypatch, matching):
    recovery = RecoverySettings(matching=matching)
    encoder = tiny_encoder("tap", 0.4, LAYERS, (2, 3, 4), recovery, **RAGGED)
    images = tiny_images(encoder, 3)
    with torch.no_grad():
        assert host_reads(monkeypatch, encoder, lambda: encoder(images)) == len(LAYERS) - 1


def test_a_further_read_would_be_noticed(monkeypatch):
    encoder = tiny_encoder("tap", 0.4, LAYERS, **RAGGED)
    images = tiny_images(encoder)
    with pytest.raises(DataDependentOutputException):
        host_reads(monkeypatch, encoder, lambda: bool(encoder(images).tokens.x.isnan().any()))
