"""The calibration-grid oracle: for every image the best of all splits in steps of 5 % (Sec. What the Register Learns).

The task's own loss decides. Splits that begin with the same removals share the blocks up to where they part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tap.config.schema import JobSpec
from tap.controls.encoder import ControlledEncoder
from tap.controls.policies import Control
from tap.encoder.swap import swapped_encoder
from tap.engine.passes import ALONE, Passes, Rows
from tap.errors import UserError
from tap.tasks.base import Batch
from tap.tasks.pipeline import Pipeline

STEP = 5
"""Percent: 231 triplets for three pruning blocks."""


@dataclass(frozen=True)
class Oracle:
    """What the search over splits has found.

    Attributes:
        splits: candidates in percent `(S, M)`, int64, in ascending order.
        losses: of every image under every candidate `(n, S)`, float64.
        sample_id: `(n,)`.
        blocks_run: blocks that were run, counted per batch and call.
        blocks_alone: blocks that would have been run without sharing.
    """

    splits: np.ndarray
    losses: np.ndarray
    sample_id: np.ndarray
    blocks_run: int
    blocks_alone: int

    @property
    def winners(self) -> np.ndarray:
        """Best candidate of each image in percent `(n, M)`; of equal ones that which removes least early."""
        return self.splits[self.losses.argmin(axis=1)]

    @property
    def schedule(self) -> tuple[float, ...]:
        """The winners' mean, in percent: the fixed schedule that is evaluated on validation."""
        return tuple(map(float, self.winners.mean(axis=0)))

    @property
    def saving(self) -> float:
        """Share of the blocks that sharing has saved."""
        return 1.0 - self.blocks_run / self.blocks_alone


def grid_splits(layers: int, step: int = STEP) -> list[tuple[int, ...]]:
    """All splits of 100 % over that many blocks in steps of `step` percent, in ascending order.

    Raises:
        UserError: the step does not divide 100.
    """
    if step < 1 or 100 % step:
        raise UserError(f"controls.oracle_step: {step} percent does not divide 100; give 5, 10, 20, 25 or 50")
    return list(_splits(100, layers, step))


def _splits(left: int, layers: int, step: int) -> Iterator[tuple[int, ...]]:
    if layers == 1:
        yield (left,)
        return
    for share in range(0, left + 1, step):
        for rest in _splits(left - share, layers - 1, step):
            yield (share, *rest)


def search_splits(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    dataset: Any,
    device: torch.device,
    step: int = STEP,
    passes: Passes = ALONE,
) -> Oracle:
    """The loss of every image under every split; selection, recovery and checkpoint are as they are.

    Args:
        task: the pipeline.
        model: the TAP model with its weights, on `device`; left as it was.
        spec: its settings.
        dataset: calibration images.
        device: where the model is.
        step: of the grid, in percent.
        passes: keeps what was found.

    Raises:
        UserError: the checkpoint has no register.
    """
    splits = grid_splits(len(model.encoder.reducer.settings.layers), step)
    controls = [Control("/".join(map(str, split)), tuple(map(float, split))) for split in splits]
    encoder = ControlledEncoder(model.encoder, controls)

    def searched(batch: Batch) -> Rows:
        batch = batch.to(device)
        before = encoder.blocks
        losses = [task.image_losses(model, spec, batch) for _ in encoder.each(controls)]
        ids, blocks = batch.sample_ids.cpu().numpy(), encoder.blocks - before
        return {"losses": np.stack(losses, axis=1), "ids": ids, "blocks": blocks[None]}

    with swapped_encoder(model, encoder):
        rows = passes.over("oracle", task, spec, dataset, searched)
    return Oracle(np.array(splits), rows["losses"], rows["ids"], *map(int, rows["blocks"].sum(axis=0)))
