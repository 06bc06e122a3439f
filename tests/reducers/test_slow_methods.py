"""Whole passes of the published methods against `slow_methods`: odd grids, several rates, images of unequal counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import slow_methods as slow
import torch
from tiny_models import tiny_encoder, tiny_images
from torch import Tensor

from tap.config.options.algm import AlgmOptions
from tap.config.options.ats import AtsOptions
from tap.config.options.cropr import CroprOptions
from tap.config.options.diffrate import DiffRateOptions
from tap.config.options.dtop import DtopOptions
from tap.config.options.evit import EvitOptions
from tap.config.options.evovit import EvoVitOptions
from tap.config.options.svit import SvitOptions
from tap.config.options.tome import TomeOptions
from tap.core.budget import keep_count
from tap.encoder.recovery_buffer import RecoverySettings

BATCH, DEPTH, LAYERS = 3, 4, (2, 3, 4)
READS = (1, 2, 3, 4)
cases = pytest.mark.parametrize(
    ("grid", "rate", "seed"), [((3, 5), 0.3, 0), ((4, 4), 0.5, 1), ((1, 7), 0.7, 2), ((2, 9), 0.95, 3)]
)


def make(method: str, grid: tuple[int, int], rate: float, seed: int, options: Any = None, **more: Any):
    given = {"options": options} | more.pop("settings", {})
    return tiny_encoder(method, rate, LAYERS, grid=grid, seed=seed, settings=given, **more).double()


def passed(encoder, grid: tuple[int, int], seed: int) -> tuple[Any, list[slow.Image]]:
    """The whole batch by the method, and each image embedded for the slow one."""
    images = tiny_images(encoder, BATCH, seed=seed)
    with torch.no_grad():
        output = encoder(images)
        return output, [slow.Image.embed(encoder.vit, image, grid) for image in images]


def agree(encoder, output, number: int, image: slow.Image) -> None:
    """States after the last block, in the order of the slow rows or up to it, count, and grids."""
    layout = output.tokens.layout
    count = layout.counts[number]
    start = int(layout.starts[number]) + layout.prefix
    rows, index = output.tokens.x[start : start + count], output.tokens.index[number, :count].tolist()
    assert count == len(image.rows)
    if all(name < image.shape[0] * image.shape[1] for name in image.rows):
        assert index == image.names
    close(rows, torch.stack(list(image.rows.values())))
    close(output.tokens.x[start - layout.prefix : start], image.prefix)
    for found, expected in zip(output.grids, image.grids if output.grids else [], strict=True):
        close(found[number], expected)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def counts_of(encoder, grid: tuple[int, int]) -> dict[int, int]:
    """Patches after each pruning block, where any leave."""
    left = [grid[0] * grid[1], *encoder.reducer.schedule(grid[0] * grid[1])]
    return {layer: after for layer, (before, after) in zip(LAYERS, pairwise(left), strict=True) if after < before}


@cases
def test_evit(grid, rate, seed):
    patches = grid[0] * grid[1]
    final = keep_count(patches, rate)
    counts = (max(final, patches - 2), max(final, patches - 4), final)
    encoder = make("evit", grid, rate, seed, EvitOptions(counts=counts))
    output, images = passed(encoder, grid, seed)
    for number, image in enumerate(images):
        present, asked = patches, {}
        for layer, count in zip(LAYERS, counts, strict=True):  # a block that would remove nothing fuses nothing
            if count < present:
                asked[layer] = count
                present = count + 1
        with torch.no_grad():
            slow.evit(image, asked)
        agree(encoder, output, number, image)


@cases
def test_dynamicvit(grid, rate, seed):
    encoder = make("dynamicvit", grid, rate, seed)
    output, images = passed(encoder, grid, seed)
    predictors = dict(zip(LAYERS, encoder.reducer.predictors, strict=True))
    for number, image in enumerate(images):
        with torch.no_grad():
            slow.dynamicvit(image, predictors, counts_of(encoder, grid))
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize("stages", [(3, 4), (2, 3, 4)])
def test_evovit(stages, grid, rate, seed):
    options = EvoVitOptions(first_block=stages[0], chosen_again=stages[1:], momentum=0.25)
    encoder = make("evovit", grid, rate, seed, options)
    output, images = passed(encoder, grid, seed)
    with torch.no_grad():
        for number, image in enumerate(images):
            slow.evovit(image, stages, keep_count(len(image.rows), rate), 0.25)
            agree(encoder, output, number, image)
            mean = sum(image.rows.values()) / len(image.rows)
            close(encoder.pool(output)[number], encoder.vit.norm(mean))


@cases
@pytest.mark.parametrize("samples", [0.375, 2.25])
def test_ats(samples, grid, rate, seed):
    encoder = make("ats", grid, rate, seed, AtsOptions(first_block=2, last_block=4, threshold=samples))
    output, images = passed(encoder, grid, seed)
    for number, image in enumerate(images):
        points = max(1, round(samples * grid[0] * grid[1]))
        with torch.no_grad():
            slow.ats(image, (2, 3, 4), points)
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize(("class_token", "proportional"), [(True, True), (True, False), (False, True)])
def test_tome(class_token, proportional, grid, rate, seed):
    options = TomeOptions(proportional=proportional)
    encoder = make("tome", grid, rate, seed, options, reads=READS, class_token=class_token)
    output, images = passed(encoder, grid, seed)
    removals = encoder.reducer.schedule(grid[0] * grid[1])
    assert sum(removals) == grid[0] * grid[1] - keep_count(grid[0] * grid[1], rate)
    for number, image in enumerate(images):
        with torch.no_grad():
            slow.tome(image, removals, proportional)
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_diffrate(alpha, grid, rate, seed):
    patches = grid[0] * grid[1]
    final = keep_count(patches, rate)
    middle = (patches + final) // 2
    prune, merge = (patches, max(middle, patches - 2), middle, final), (patches, middle, (middle + final) // 2, final)
    options = DiffRateOptions(prune_counts=prune, merge_counts=merge)
    encoder = make("diffrate", grid, rate, seed, options, reads=READS, recovery=RecoverySettings(scale=alpha))
    output, images = passed(encoder, grid, seed)
    for number, image in enumerate(images):
        with torch.no_grad():
            slow.diffrate(image, prune, merge, alpha)
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize("task", ["cls", "seg"])
def test_cropr(task, grid, rate, seed):
    options = CroprOptions(layers=(1, 2))
    encoder = make("cropr", grid, rate, seed, options, reads=READS, settings={"dense": task == "seg", "patches": 6})
    output, images = passed(encoder, grid, seed)
    queries = {
        layer: scorer.queries[0] for layer, scorer in zip(encoder.reducer.layers, encoder.reducer.scorers, strict=True)
    }
    assert len(queries[1]) == (1 if task == "cls" else 6)
    left = encoder.reducer.schedule(grid[0] * grid[1])
    for number, image in enumerate(images):
        with torch.no_grad():
            slow.cropr(image, queries, dict(zip(queries, left, strict=True)))
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize("class_token", [True, False])
def test_algm(class_token, grid, rate, seed):
    options = AlgmOptions(local_block=1, global_blocks=(2, 3), threshold=0.5)
    encoder = make("algm", grid, rate, seed, options, reads=READS, class_token=class_token)
    output, images = passed(encoder, grid, seed)
    for number, image in enumerate(images):
        with torch.no_grad():
            slow.algm(image, 1, (2, 3), 0.5)
        agree(encoder, output, number, image)


@cases
@pytest.mark.parametrize("threshold", [0.2, 0.4])
def test_dtop(threshold, grid, rate, seed):
    options = DtopOptions(layers=(1, 3), channels=8, heads=2, kept_per_class=1, threshold=threshold)
    encoder = make("dtop", grid, rate, seed, options, reads=READS)
    output, images = passed(encoder, grid, seed)
    heads = dict(zip(encoder.reducer.layers, encoder.reducer.heads, strict=True))
    plain = torch.randn(BATCH, 3, *grid, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    found = encoder.reducer.dense_logits(plain, output)
    exited = 0
    for number, image in enumerate(images):
        with torch.no_grad():
            answers = slow.dtop(image, heads, threshold, 1)
        exited += len(answers)
        agree(encoder, output, number, image)
        for patch in range(grid[0] * grid[1]):
            row, column = divmod(patch, grid[1])
            expected = answers.get(patch, plain[number, :, row, column].log_softmax(dim=0))
            # Where nothing exits at all the head's logits come back as they are, the same but for one constant.
            close(found[number, :, row, column].log_softmax(dim=0), expected.double())
    assert exited or threshold > 0.3


@cases
@pytest.mark.parametrize(("class_token", "threshold"), [(True, 0.6), (False, 0.4), (False, 0.0)])
def test_svit(class_token, threshold, grid, rate, seed):
    encoder = make("svit", grid, rate, seed, SvitOptions(layers=(1, 2, 4)), reads=READS, class_token=class_token)
    encoder.reducer.threshold.fill_(threshold)
    output, images = passed(encoder, grid, seed)
    gates = {
        layer: torch.nn.Sequential(gate.norm, gate.mlp)
        for layer, gate in zip((1, 2, 4), encoder.reducer.gates, strict=True)
    }
    for number, image in enumerate(images):
        with torch.no_grad():
            through = slow.svit(image, gates, threshold)
        agree(encoder, output, number, image)
        assert output.final_counts[number] == through[-1]
