"""Tables that follow from settings and code alone: `tab:training-config`, `tab:parameters` and others."""

from __future__ import annotations

import torch

from tap.config.schema import AugmentConfig, TaskConfig, TrainConfig
from tap.core.budget import keep_count, settle_proposal
from tap.core.register import Controller
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.reported import load_reported
from tap.paper.tables.plain import Cells, Head, PlainTable
from tap.paper.tables.probes import CRITERIA_TABLE
from tap.paper.tidy import PRIMARY_METRIC

_METRIC_NAMES = {"top1": "top-1", "miou": "mIoU", "box_ap": "box AP"}


def training_config(evidence: Evidence) -> Cells:
    """The settings in use. Where no pruning and the methods differ, both stand, in that order."""
    cells: dict[tuple[str, str], str] = {}
    controller = evidence.settings.controller
    for task, settings in evidence.settings.tasks.items():
        side = settings.model.image_size // settings.model.patch_size
        texts = {
            "resolution": f"{settings.model.image_size} x {settings.model.image_size}",
            "grid": f"{side} x {side}",
            "batch_size": _both(settings, lambda train: str(train.batch_size)),
            "optimizer": "AdamW",
            "lr": _both(settings, lambda train: f"{train.optimizer.lr:g}"),
            "weight_decay": _both(settings, lambda train: f"{train.optimizer.weight_decay:g}"),
            "length": _both(settings, lambda train: f"{train.length:g} {train.unit}"),
            "schedule": _both(settings, _schedule),
            "augmentation": _both(settings, lambda train: _augmentation(train.augment)),
            "layers": ", ".join(map(str, controller.layers)),
            "seeds": str(len(settings.seeds)),
            "primary": _METRIC_NAMES[PRIMARY_METRIC[task]],
            "secondary": "mask AP" if task == "det" else "n/a",
        }
        cells |= {(row, task): text for row, text in texts.items()}
    return cells


def parameters(evidence: Evidence) -> Cells:
    """Counted from a built controller of the scale's width. TAP-F's updates are not built yet, so not counted."""
    width = next(iter(evidence.settings.tasks.values())).model.width
    controller = Controller(width, tasks=["task"], recovery=True)
    count = {name: parameter.numel() for name, parameter in controller.named_parameters()}
    parts = {
        part: sum(size for name, size in count.items() if name.startswith(prefix))
        for part, prefix in (("register", "registers."), ("allocation", "allocation."), ("recovery", "recovery."))
    }
    numbers = {(part, "tap"): size for part, size in parts.items()}
    numbers |= {("register", "tap_f"): parts["register"], ("lora", "tap"): 0, ("total", "tap"): sum(count.values())}
    shared = {("allocation", "tap_f"): "shared", ("recovery", "tap_f"): "shared"}
    return {**{key: Value(float(number), None, (), ()) for key, number in numbers.items()}, **shared}


def budget_tests(evidence: Evidence) -> Cells:
    """The synthetic cases, run through Algorithm 1 as the encoder runs it."""
    cells: dict[tuple[str, str], str | Value] = {}
    for row in load_reported("tab:budget-tests").rows:
        patches, kept, proposals = (cell.text if cell is not None else "" for cell in row.cells[:3])
        removals = _removals(int(patches), int(kept), proposals.split(","))
        left = int(patches) - sum(removals)
        exact = "keep all" if not sum(removals) else f"sum = {sum(removals)}"
        cells[row.key, "patches"] = Value(float(patches), None, (), ())
        cells[row.key, "kept"] = Value(float(left), None, (), ())
        cells[row.key, "proposals"] = proposals
        cells[row.key, "removals"] = ", ".join(map(str, removals))
        cells[row.key, "check"] = "one survives" if left == 1 else exact
    return cells


def _removals(patches: int, kept: int, proposals: list[str]) -> list[int]:
    present, budget = torch.tensor([patches]), torch.tensor([patches - kept])
    assert keep_count(patches, kept / patches) == kept
    removals = []
    for proposal in proposals:
        if proposal.strip() == "rem.":
            removed, budget = budget, torch.zeros_like(budget)
        else:
            step = settle_proposal(torch.tensor([float(proposal)]), budget, present)
            removed, budget = step.removals, step.remaining
        present = present - removed
        removals.append(int(removed))
    return removals


def _both(settings: TaskConfig, text) -> str:
    dense, method = text(settings.dense), text(settings.method)
    return dense if dense == method else f"{dense}; {method}"


def _schedule(train: TrainConfig) -> str:
    schedule = train.schedule
    text = f"{schedule.warmup:g} {train.unit}, {schedule.kind}"
    if schedule.milestones:
        text += f" at {'/'.join(f'{step:g}' for step in schedule.milestones)}"
    return text


def _augmentation(augment: AugmentConfig) -> str:
    parts = {
        "crop": augment.crop_scale != (1.0, 1.0),
        "flip": augment.hflip > 0,
        "RA": augment.rand_augment is not None,
        "Mixup": augment.mixup > 0,
        "CutMix": augment.cutmix > 0,
        "RE": augment.random_erasing > 0,
        "scale": augment.scale_range != (1.0, 1.0),
        "photo": augment.photometric,
        "label smoothing": augment.label_smoothing > 0,
    }
    return ", ".join(name for name, used in parts.items() if used) or "none"


TABLES = (
    PlainTable(
        "tab:training-config",
        (),
        "Settings in use for no pruning and for the methods (where they differ: in that order)",
        (
            Head("cls", ("cls",)),
            Head("seg", ("seg",)),
            Head("det", ("det",)),
        ),
        training_config,
    ),
    PlainTable(
        "tab:parameters",
        (),
        "Pruning-specific parameters, counted for the width in use",
        (Head("TAP-J", ("tap",)), Head("TAP-F per task", ("tap_f",))),
        parameters,
    ),
    PlainTable(
        "tab:budget-tests",
        (),
        "Synthetic cases of the integer allocation, computed by the code that the encoder uses",
        (
            Head("$N_1$", ("patches",)),
            Head("$K$", ("kept",)),
            Head("proposals", ("proposals",)),
            Head("removals", ("removals",)),
            Head("check", ("check",)),
        ),
        budget_tests,
        names=False,
        scaled=False,
    ),
    CRITERIA_TABLE,
)
