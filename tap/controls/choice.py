"""Is the choice good? What each group of patches is worth to the loss, beside what rankings and the gradient say.

A ranking that chooses well puts those groups first whose removal costs most. The straight-through mask can teach that
only if its gradient points there: `gradient` is what it says of every group at the start of its temperature, without
noise, in the sparse pass of the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tap.config.schema import JobSpec
from tap.controls.leave_out import LeaveOutEncoder, group_means, patch_groups
from tap.controls.listening import listening
from tap.encoder.swap import swapped_encoder
from tap.encoder.tokens import Tokens
from tap.engine.passes import ALONE, Passes, Rows
from tap.seeds import derive_seed
from tap.tasks.base import Batch
from tap.tasks.pipeline import Pipeline

RANKINGS: Final = ("register", "attention", "random", "gradient")
"""What is held against the losses; each says of a group, the higher the more, that it should stay."""


@dataclass(frozen=True)
class Choice:
    """The worth of the groups of each image, and what says so.

    Attributes:
        identity: what images are told apart by `(n,)` each: `sample_id`, and `place` where several are views of one.
        losses: of every image with all patches, then without each group `(n, 1 + G)`, float64.
        says: of each ranking the mean over the patches of every group `(n, G)`, float64.
    """

    identity: Mapping[str, NDArray]
    losses: NDArray
    says: Mapping[str, NDArray]

    @property
    def worth(self) -> NDArray:
        """What the loss gains without each group `(n, G)`."""
        return self.losses[:, 1:] - self.losses[:, :1]


def judge_choice(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    dataset: Any,
    device: torch.device,
    side: int,
    passes: Passes = ALONE,
) -> Choice:
    """Removes each group of patches in turn at the first pruning block, all else staying, and asks all rankings.

    Args:
        task: the pipeline.
        model: the TAP model with its weights, on `device`; left as it was.
        spec: its settings.
        dataset: images.
        device: where the model is.
        side: fields of the patch grid in each direction; each is a group.
        passes: keeps what was found.

    Raises:
        UserError: the checkpoint has no register, or the grid is smaller than the fields.
    """
    encoder = LeaveOutEncoder(model.encoder, side)
    model.eval()  # for the gradients too, which the model's own encoder gives

    def judged(batch: Batch) -> Rows:
        batch = batch.to(device)
        encoder.new_batch()
        losses, says = [], {}
        with swapped_encoder(model, encoder):
            for group in (None, *range(side**2)):
                encoder.rewind(group)
                losses.append(task.image_losses(model, spec, batch))
        groups = [patch_groups(call.state.grid, side) for call in encoder.calls]
        numbers = batch.sample_ids.cpu().numpy()
        for name in ("register", "attention"):
            says[name] = _over_calls([getattr(call, name).cpu().numpy() for call in encoder.calls], groups)
        drawn = (np.random.default_rng(derive_seed(spec.seed, "choice", int(number))) for number in numbers)
        says["random"] = np.stack([generator.random(side**2) for generator in drawn])
        says["gradient"] = _over_calls([-part for part in _gradients(task, model, spec, batch)], groups)
        return {**batch.identity, "losses": np.stack(losses, axis=1), **says}

    rows = passes.over("choice", task, spec, dataset, judged)
    says = {name: rows[name] for name in RANKINGS}
    identity = {name: rows[name] for name in rows if name not in ("losses", *RANKINGS)}
    return Choice(identity, rows["losses"], says)


def _over_calls(values: Sequence[NDArray], groups: Sequence[NDArray]) -> NDArray:
    """Means over the groups, and over the windows of an image."""
    return np.mean([group_means(part, group) for part, group in zip(values, groups, strict=True)], axis=0)


def _gradients(task: Pipeline, model: Any, spec: JobSpec, batch: Batch) -> list[NDArray]:
    """Gradient of each image's loss to the scores of its first pruning block `(B, N)`, of every call of the encoder.

    Images are independent, so that the gradient of the sum of their losses is that of each.
    """
    reducer, scores = model.encoder.reducer, []
    first = model.encoder.vit.blocks[reducer.settings.layers[0] - 1]

    def heard(block: Any, tokens: Tokens, hidden: Tensor, keys: Tensor, found: Tensor) -> Tensor:
        if block is first:
            found = found.detach().requires_grad_()
            scores.append(found)
        return found

    before = reducer.settings, reducer.temperature, [one.requires_grad for one in model.parameters()]
    reducer.settings = replace(reducer.settings, gumbel=False)
    reducer.temperature, reducer.training = reducer.settings.tau_start, True
    model.requires_grad_(False)
    try:
        with listening(reducer, heard), torch.enable_grad():
            task.losses_of_images(model, spec, batch).sum().backward()
    finally:
        reducer.settings, reducer.temperature, reducer.training = before[0], before[1], False
        for parameter, needed in zip(model.parameters(), before[2], strict=True):
            parameter.requires_grad_(needed)
    return [np.zeros(tuple(one.shape)) if one.grad is None else one.grad.cpu().numpy() for one in scores]
