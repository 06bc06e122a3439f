"""Floating-point operations of jobs that pass over an image many times, by formulas (docs/plan.md).

Probes, controls, the choice of an endpoint, and what an evaluation says of a register. All of them run what their
passes have in common once, which the formulas follow. What rankings compute beside matrix products is left out: a
criterion that takes one patch after the other has as many rounds, which on a GPU may last as long as its passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from tap.config.lookup import facts_of
from tap.config.measuring import ControlConfig, ProbeConfig
from tap.config.methods import CRITERIA, WITH_REGISTER
from tap.config.schema import JobSpec
from tap.plan.flops import (
    FROZEN_PASSES,
    PASSES,
    box_flops,
    encoder_flops,
    flops_of_block,
    forward_flops,
    head_flops,
    patches,
    proposal_flops,
    pyramid_flops,
    rows,
)

FRESH_REGISTERS: Final = 8
"""Fresh registers that an evaluation holds beside the trained one."""

SCHEDULES: Final = 8
"""Allocations of controls: the register's, four that are stated, the means of two splits, and the oracle's."""

READINGS: Final = {False: 10, True: 33}
"""Controls, each of which runs the head: of a task without recovery, and of a dense one."""

ENDPOINTS: Final = 2
"""Full offset and stand-in only."""


def diagnostics_flops(spec: JobSpec, others: int) -> float:
    """One image in the diagnostics of a register: its own pass, and one with each register in its place.

    Args:
        spec: the run; 0 where no register ranks its patches.
        others: registers of other tasks of the same joint training.
    """
    if spec.method not in WITH_REGISTER or spec.rate == 1.0 or spec.controller.selection == "attention":
        return 0.0
    return (1 + FRESH_REGISTERS + 1 + others) * encoder_flops(spec.model, rows(spec, training=False))


def endpoint_flops(specs: Sequence[JobSpec]) -> float:
    """One image in the choice of an endpoint: both of them with every model that takes part."""
    return ENDPOINTS * sum(map(forward_flops, specs))


def probe_flops(spec: JobSpec, kind: str, settings: ProbeConfig) -> float:
    """One image under all probes of a checkpoint, and under none (Sec. Protocol).

    Args:
        spec: its no-pruning run.
        kind: `layers` (criteria at every eligible block) or `recovery` (one criterion, both endpoints).
        settings: criteria, blocks and keep rate.
    """
    model, every = spec.model, rows(spec, training=False)
    eligible = model.global_blocks if model.window is not None else None
    layers = settings.layers or eligible or tuple(range(1, model.depth + 1))
    kept = every[0] - (1.0 - settings.keep_rate) * patches(model)
    criteria, endpoints = (len(settings.criteria or CRITERIA), 1) if kind == "layers" else (1, ENDPOINTS)
    total = encoder_flops(model, every) + head_flops(spec, training=False)
    seen = 2.0 * every[0] * model.width**2  # keys
    if kind == "layers":
        seen *= 2  # and queries
        seen += 3 * 2.0 * every[0] ** 2 * model.width  # their products, and cosines of tokens and of keys
    for layer in layers:
        behind = sum(flops_of_block(model, block, kept) for block in range(layer, model.depth + 1))
        total += seen + criteria * (behind + endpoints * head_flops(spec, training=False))
    return total


def register_flops(spec: JobSpec) -> float:
    """One image whose register is asked for its decisions: the encoder alone."""
    return encoder_flops(spec.model, rows(spec, training=False))


def controls_flops(spec: JobSpec) -> float:
    """One image under all controls: every allocation from the first pruning block on, and the head for each control."""
    model, counts, first = spec.model, rows(spec, training=False), spec.controller.layers[0]
    behind = sum(flops_of_block(model, block, counts[block - 1]) for block in range(first, model.depth + 1))
    readings = READINGS[facts_of(spec.task).dense]
    return encoder_flops(model, counts) + (SCHEDULES - 1) * behind + readings * head_flops(spec, training=False)


def oracle_flops(spec: JobSpec, step: int) -> float:
    """One image under all splits in steps of `step` percent, which share the blocks up to where they part."""
    model, layers = spec.model, spec.controller.layers
    shares = range(0, 101, step)
    splits = [split for split in product(shares, repeat=len(layers)) if sum(split) == 100]
    blocks: dict[tuple[int, tuple[int, ...]], float] = {}
    for split in splits:
        for block, count in enumerate(rows(spec, training=False, split=split), start=1):
            before = tuple(share for layer, share in zip(layers, split, strict=True) if layer <= block)
            blocks[block, before] = flops_of_block(model, block, count)
    embedding = encoder_flops(model, ())
    return embedding + sum(blocks.values()) + len(splits) * loss_flops(spec)


def choice_flops(spec: JobSpec, side: int) -> float:
    """One image without each of `side` x `side` groups of patches in turn, and the gradient that speaks of them."""
    model, first = spec.model, spec.controller.layers[0]
    every = float(rows(spec, training=False)[0])
    left = every - patches(model) / side**2
    behind = sum(flops_of_block(model, block, left) for block in range(first, model.depth + 1))
    gradient = FROZEN_PASSES * encoder_flops(model, rows(spec, training=False)) + PASSES * loss_flops(spec)
    return encoder_flops(model, [every] * model.depth) + side**2 * behind + (side**2 + 1) * loss_flops(spec) + gradient


def loss_flops(spec: JobSpec) -> float:
    """The head of one image as its own loss asks for it: of detection the boxes alone, on sampled regions."""
    detector = spec.model.detector
    if detector is None:
        return head_flops(spec)
    boxes = 3.0 * box_flops(detector, detector.box_samples, spec.data.num_classes)
    return pyramid_flops(spec.model, detector.pyramid_channels) + proposal_flops(spec.model, detector) + boxes


def control_flops(spec: JobSpec, settings: ControlConfig, calibration: int, validation: int) -> float:
    """All images of a checkpoint's controls.

    Args:
        spec: its run.
        settings: how many images take part; all of a split where they say nothing.
        calibration, validation: images of the splits.
    """
    asked = settings.calibration_images or calibration, settings.images or validation
    total = (asked[0] + validation) * register_flops(spec) + asked[1] * controls_flops(spec)
    total += (settings.oracle_images or calibration) * oracle_flops(spec, settings.oracle_step)
    return total + (settings.choice_images or validation) * choice_flops(spec, settings.choice_side)
