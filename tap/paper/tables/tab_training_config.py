"""`tab:training-config`: the settings of the trainings."""

from __future__ import annotations

from tap.config.methods import METHODS
from tap.config.schema import AugmentConfig, TrainConfig
from tap.config.task import TaskConfig
from tap.paper.evidence import Evidence
from tap.paper.reported import Column
from tap.paper.tables.table import Cells, Content, Head, Table, stated
from tap.task_facts import TASKS

READS = "settings"


def cells(evidence: Evidence) -> Cells:
    """The settings in use. Where no pruning and the methods differ, both stand, in that order."""
    found: dict[tuple[str, str], Content] = {}
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
            "primary": TASKS[task].score.title,
            "secondary": ", ".join(item.title for item in TASKS[task].metrics[1:]) or "n/a",
        }
        if own := _own_values(settings):
            texts["values of single methods"] = own
        found |= {(row, task): stated(text) for row, text in texts.items()}
    return found


def _both(settings: TaskConfig, text) -> str:
    dense, method = text(settings.dense), text(settings.method)
    return dense if dense == method else f"{dense}; {method}"


def _own_values(settings: TaskConfig) -> str:
    """What is chosen for single methods in the place of the values of all (docs/tune.md)."""
    words = {
        METHODS[name].row.title: ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.changes.items())
        for name, values in settings.chosen.items()
        if name in settings.methods
    }
    return "; ".join(f"{title}: {text.replace('_', ' ')}" for title, text in words.items())


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


TABLE = Table(
    "Settings in use for no pruning and for the methods (where they differ: in that order)",
    tuple(Head(task, (task,)) for task in TASKS),
    cells,
    columns=tuple(Column(task, facts.title, "setting") for task, facts in TASKS.items()),
)
