"""Does the register decide? The ranking of a trained register beside that of others which have learned nothing of it.

A register that ranks the patches as any fresh one does has not learned to choose, whatever its score: its choice is
that of the frozen query projection. So on some validation images the checkpoint is run again with fresh registers, with
the very one that its training began with, and in a joint model with those of the other tasks, in the place of its own;
all else stays. Incoming attention is asked at
the very states that the trained register has seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from tap.config.schema import JobSpec
from tap.controls.listening import listening
from tap.encoder.blocks import project, ragged_incoming_attention
from tap.encoder.tokens import Tokens
from tap.encoder.weights import read_tensors
from tap.engine.joint_files import CONTROLLING
from tap.errors import UserError
from tap.plan.study_flops import FRESH_REGISTERS
from tap.seeds import derive_seed
from tap.tasks.drawn_images import drawn
from tap.tasks.pipeline import Pipeline
from tap.tasks.retention import final_kept


@dataclass(frozen=True)
class Heard:
    """What ranked the patches in one pass.

    Attributes:
        scores: at each pruning block `(B, N_1)`, float32, by original index; NaN for patches that are gone.
        attention: incoming attention at the same states, likewise; empty where it was not asked for.
        kept: patches left after each pruning block `(B, N_1)`, bool.
    """

    scores: Mapping[int, NDArray]
    attention: Mapping[int, NDArray]
    kept: Mapping[int, NDArray]


def register_metrics(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    device: torch.device,
    start: Tensor,
    others: Mapping[str, Tensor],
    fresh: int = FRESH_REGISTERS,
) -> dict[str, float]:
    """Agreement of a trained register's ranking with others', and how far it has come from its start.

    Correlations are Spearman's over the patches that both rank at a pruning block, overlaps the share of the patches
    kept in the end that both keep (for attention: that are kept at a block); both are averaged over blocks, images and
    the other registers.

    Args:
        task: the pipeline.
        model: with its weights, on `device`; left as it was.
        spec: its settings.
        device: where the model is.
        start: the register before its training `(d,)`.
        others: registers of other tasks of a joint training `(d,)`.
        fresh: how many fresh registers.

    Returns:
        Metrics by name; empty where no register ranks: other methods, an empty budget, selection by attention.
    """
    reducer = model.encoder.reducer
    controller = getattr(reducer, "controller", None)
    if controller is None or reducer.keep_rate == 1.0 or reducer.settings.selection == "attention":
        return {}
    own = controller.registers[spec.task].detach().cpu()
    fresh_ones = fresh_registers(len(own), reducer.settings.register_std, fresh, spec.seed)
    found: dict[str, list[float]] = {}
    model.eval()
    with torch.inference_mode():
        images_of_split = drawn(task.datasets(spec).validation, spec.eval.register_images, spec.data.name, "register")
        for batch in task.loader(images_of_split, spec):
            batch = batch.to(device)
            for images in task.encoder_inputs(spec, batch.images):
                trained = hear(model.encoder, images, batch.sample_ids, attention=True)
                _add(found, "register_attention", attention_agreement(trained))
                together = max(1, spec.eval.batch_size // len(images))
                replaced = {
                    "register_fresh": fresh_ones,
                    "register_start": (start,),
                    "register_other": tuple(others.values()),
                }
                for name, registers in replaced.items():
                    for first in range(0, len(registers), together):
                        stack = torch.stack(tuple(registers[first : first + together])).to(device)
                        passes = hear(model.encoder, images, batch.sample_ids, stack)
                        _add(found, name, agreement(trained, passes))
    metrics = {name: float(np.mean(values)) for name, values in found.items()}
    lengths = float(own.norm() * start.norm())
    metrics["register_cosine"] = float(own @ start) / lengths if lengths else 0.0
    metrics["register_distance"] = float((own - start).norm() / start.norm()) if float(start.norm()) else float("inf")
    return metrics


def fresh_registers(width: int, std: float, count: int, seed: int) -> tuple[Tensor, ...]:
    """Registers as a training would begin with, of other draws than any training has `(d,)`."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "fresh registers"))
    return tuple(torch.randn(count, width, generator=generator) * std)


def own_register(model: Any, task: str) -> Tensor | None:
    """A copy of the register that a model has for a task `(d,)`; None for a method without registers."""
    reducer: Any = getattr(getattr(model, "encoder", None), "reducer", None)
    controller = getattr(reducer, "controller", None)
    return None if controller is None else controller.registers[task].detach().cpu().clone()


def register_in(path: Path, task: str) -> Tensor:
    """The register of a task in a file of weights `(d,)`.

    Raises:
        UserError: the file is missing or damaged, or holds no register of this task.
    """
    tensors, name = read_tensors(path), f"{CONTROLLING}controller.registers.{task}"
    if name not in tensors:
        raise UserError(f"{path}: holds no register of '{task}'; train its run again")
    return tensors[name]


def hear(
    encoder: Any,
    images: Tensor,
    sample_ids: Tensor,
    registers: Tensor | None = None,
    attention: bool = False,
) -> Heard:
    """One pass, with all rankings.

    Args:
        encoder: of a TAP model.
        images: `(B, C, H, W)`.
        sample_ids: `(B,)`.
        registers: others in the place of the checkpoint's own `(R, d)`; the pass is then over all images with the first
            one, all images with the second one, and so on.
        attention: whether incoming attention is ranked by as well.
    """
    times = 1 if registers is None else len(registers)
    scores: dict[int, NDArray] = {}
    received: dict[int, NDArray] = {}
    with _listening(encoder, scores, received if attention else None, registers, images):
        trace = encoder(images.repeat(times, 1, 1, 1), sample_ids.repeat(times), return_trace=True).trace
    kept = {layer: mask.cpu().numpy() for layer, mask in trace.kept.items()}
    kept[max(kept)] = final_kept(trace).numpy()
    return Heard(scores, received, kept)


def agreement(trained: Heard, others: Heard) -> tuple[list[float], list[float]]:
    """Rank correlations and overlaps of one pass with each of several, which lie one after the other.

    Returns:
        A correlation for each block, image and other register (without those that are undefined, of a single common
        patch or of equal scores), and an overlap of the finally kept patches for each image and other register.
    """
    last = max(trained.kept)
    times = len(others.kept[last]) // len(trained.kept[last])
    correlations = [
        rank_correlation(mine, theirs)
        for layer, scores in trained.scores.items()
        if layer in others.scores
        for mine, theirs in zip(np.tile(scores, (times, 1)), others.scores[layer], strict=True)
    ]
    mine, theirs = np.tile(trained.kept[last], (times, 1)), others.kept[max(others.kept)]
    overlaps = (mine & theirs).sum(axis=1) / mine.sum(axis=1)
    return [value for value in correlations if not np.isnan(value)], overlaps.tolist()


def attention_agreement(trained: Heard) -> tuple[list[float], list[float]]:
    """The same of incoming attention at the states of the pass; the overlap at every block, with as many patches."""
    correlations, overlaps = [], []
    for layer, received in trained.attention.items():
        for scores, theirs, kept in zip(trained.scores[layer], received, trained.kept[layer], strict=True):
            correlations.append(rank_correlation(scores, theirs))
            order = np.argsort(np.where(np.isnan(theirs), np.inf, -theirs), kind="stable")
            overlaps.append(float(kept[order[: kept.sum()]].mean()))
    return [value for value in correlations if not np.isnan(value)], overlaps


def rank_correlation(first: NDArray, second: NDArray) -> float:
    """Spearman's correlation over the places `(N,)` that both have; NaN where it is not defined."""
    both = ~(np.isnan(first) | np.isnan(second))
    if both.sum() < 2:
        return float("nan")
    ranks = np.stack([rankdata(first[both]), rankdata(second[both])])
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    scale = float(np.sqrt((centred**2).sum(axis=1).prod()))
    return float((centred[0] * centred[1]).sum()) / scale if scale else float("nan")


def _add(found: dict[str, list[float]], name: str, pair: tuple[Sequence[float], Sequence[float]]) -> None:
    for what, values in zip(("correlation", "overlap"), pair, strict=True):
        if values:
            found.setdefault(f"{name}_{what}", []).extend(values)


@contextmanager
def _listening(
    encoder: Any,
    scores: dict[int, NDArray],
    received: dict[int, NDArray] | None,
    registers: Tensor | None,
    images: Tensor,
) -> Iterator[None]:
    """Notes what ranks the patches at every pruning block, and puts other registers in the place of the own one.

    Both are attributes of the instance in front of its class's methods, so that no code of the encoder knows of it.
    """
    reducer, blocks = encoder.reducer, list(encoder.vit.blocks)
    down, across = encoder.vit.patch_embed.patch_size
    patches = (images.shape[-2] // down) * (images.shape[-1] // across)

    def heard(block: Any, tokens: Tokens, hidden: Tensor, keys: Tensor, found: Tensor) -> Tensor:
        layer = 1 + next(place for place, one in enumerate(blocks) if one is block)
        scores[layer] = _by_index(found, tokens, patches)
        if received is not None:
            query = project(block.attn, hidden, "q")
            received[layer] = _by_index(ragged_incoming_attention(block, tokens, query, keys), tokens, patches)
        return found

    def initial(task: str, batch: int) -> Tensor:
        assert registers is not None
        return registers.repeat_interleave(len(images), dim=0)[:, None]

    if registers is not None:
        reducer.controller.initial = initial
    try:
        with listening(reducer, heard):
            yield
    finally:
        if registers is not None:
            del reducer.controller.initial


def _by_index(values: Tensor, tokens: Tokens, patches: int) -> NDArray:
    """Values of the padded grid `(B, N)` at their patches' original places `(B, N_1)`, NaN elsewhere."""
    valid = tokens.layout.valid
    index = tokens.index if valid is None else tokens.index.masked_fill(~valid, patches)
    found = values.new_full((len(values), patches + 1), float("nan"), dtype=torch.float32)
    return found.scatter_(1, index, values.float())[:, :patches].cpu().numpy()
