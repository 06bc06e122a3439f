"""What a pass needs on top of the weights, as torch's allocator sees it."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

from tap.encoder import attention
from tap.profiling.memory import lean_twin, peak_bytes, weight_bytes
from tap.profiling.throughput import dense_twin

CPU = torch.device("cpu")


def test_the_peak_is_what_is_held_at_once():
    before = torch.ones(1000)

    def call() -> None:
        first = before + 1  # 4,000 bytes
        second = first * 2  # 8,000 bytes held
        del first, second
        before.clone()

    call()
    assert 8000 <= peak_bytes(call, CPU) < 9000


def test_shared_weights_count_once():
    encoder = tiny_encoder()
    assert weight_bytes(torch.nn.ModuleList([encoder.vit, encoder.vit])) == weight_bytes(encoder.vit)


@pytest.mark.parametrize(
    ("reads", "options", "share"), [((), {}, 1.0), ((1, 2, 3, 4), {}, 0.9), ((4,), {"global_blocks": (1, 4)}, 0.9)]
)
@pytest.mark.parametrize("batch", [1, 5])
def test_a_pass_of_tap_needs_no_more_than_the_dense_encoder(reads, options, share, batch):
    trunk = {"window": 5, **options} if options else {}
    encoder = tiny_encoder("tap", 0.5, (1, 2, 3), reads, grid=(20, 20), width=32, **trunk)
    images, ids, twin = tiny_images(encoder, batch), torch.arange(batch), dense_twin(encoder).eval()
    with torch.inference_mode():
        twin(images), encoder(images, ids)
        assert peak_bytes(lambda: encoder(images, ids), CPU) <= share * peak_bytes(lambda: twin(images), CPU)


def test_detection_at_the_paper_s_shape_needs_nine_tenths_at_most(monkeypatch):
    """One head of ViT-B's twelve on 64 x 64 patches; without recovery, whose similarities no head has a share of."""
    monkeypatch.setattr(attention, "_LOGITS", attention._LOGITS // 12)
    trunk = {"window": 14, "global_blocks": (3, 4), "heads": 1, "width": 64, "grid": (64, 64)}
    first = {"schedule": (26.8, 73.2)}  # what the first of the three pruning blocks removes, and the rest
    encoder = tiny_encoder("tap", 0.5, (3, 4), settings=first, **trunk)
    images, twin = tiny_images(encoder, 1), dense_twin(encoder).eval()
    with torch.inference_mode():
        pruned, dense = (peak_bytes(partial(each, images), CPU) for each in (encoder, twin))
    assert 0.8 < pruned / dense <= 0.9


def test_the_dense_encoder_in_pieces_is_the_dense_encoder():
    encoder = tiny_encoder("tap", 0.5, (2, 3))
    images = tiny_images(encoder, 3)
    with torch.inference_mode():
        expected, found = dense_twin(encoder).eval()(images), lean_twin(encoder)(images)
    assert torch.equal(found.tokens.x, expected.tokens.x)
