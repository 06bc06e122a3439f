"""What a profile measures, and on which machine: known without torch, so that the workflow can name its files."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tap.config.load import load_scale
from tap.config.methods import DENSE, FROZEN, METHODS, TAP
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.runs import task_of
from tap.provenance.record import processor
from tap.task_facts import TASKS

Shapes = Literal["smoke", "desk", "paper"]
"""A scale whose models and images are profiled."""
Split = tuple[tuple[float, float], ...]

PROFILES: Final = Path("results") / "profiles"
"""Folder of all profiles: ``<device>/<shapes>/<task>.json``."""

PRINTED_SPLITS: Final[dict[str, Split]] = {
    "cls": ((26.8, 4.2), (33.4, 3.5), (39.8, 4.1)),
    "seg": ((29.6, 4.2), (33.1, 3.5), (37.3, 4.1)),
    "det": ((21.8, 0.0), (32.5, 4.6), (45.7, 4.6)),
}
"""Mean share of the removal budget at each pruning block, and SD over images, in percent (tab:register-distributions).

The paper prints none for classification: the means are those of the schedule that all tasks share, the SD
segmentation's.
"""


class ProfileKey(NamedTuple):
    """Which profile.

    Attributes:
        device: the machine's name in paths.
        shapes: whose model and image sizes.
        task: cls, seg or det.
    """

    device: str
    shapes: Shapes
    task: str


@dataclass(frozen=True)
class Protocol:
    """How a profile is taken (Sec. Profiling protocol).

    Attributes:
        batch: images of a pass.
        dtype: `bf16` autocast or `fp32`.
        warmup: passes of each side before the first round.
        iterations: measured passes of each side, of all rounds together.
        rounds: repetitions, with the methods in another order each time.
        repeats: how many disturbed rounds are replaced at most.
        memory_iterations: passes of which the largest peak counts, at batch 1.
        full: subjects whose full model is timed beside their encoder; None for all.
        compiled: whether both sides are timed compiled as well.
        threads: CPU threads; 0 on a GPU.
    """

    batch: int
    dtype: Literal["bf16", "fp32"]
    warmup: int
    iterations: int
    rounds: int
    repeats: int
    memory_iterations: int
    full: tuple[str, ...] | None
    compiled: bool
    threads: int


_ONE: Final = dict.fromkeys(TASKS, 1)
_PAPER_BATCH: Final = _ONE | {"cls": 128, "seg": 8}
_CPU_BATCH: Final = _ONE | {"cls": 8}


def protocol(key: ProfileKey) -> Protocol:
    """The paper's protocol on a GPU; on a CPU float32, smaller batches and fewer passes. Smoke shows that it runs.

    Desk shapes are timed with the batch and the passes of `tasks.<task>.profile`.
    """
    on_cpu = key.device.startswith("cpu-")
    if key.shapes == "smoke":
        return Protocol(2, "fp32", 1, 2, 2, 0, 1, (TAP,), False, 1)
    if key.shapes == "desk":
        own = task_of(shaped("desk"), key.task).profile
        threads = own.threads if on_cpu else 0
        return Protocol(own.batch_size, own.dtype, own.warmup, own.iterations, 5, 5, 1, None, not on_cpu, threads)
    if on_cpu:
        return Protocol(_CPU_BATCH[key.task], "fp32", 0, 5, 5, 5, 1, (TAP,), False, 2)  # about 34 minutes in all
    return Protocol(_PAPER_BATCH[key.task], "bf16", 100, 500, 5, 5, 50, None, True, 0)


def shapes_of(cfg: ScaleConfig) -> tuple[Shapes, ...]:
    """The shapes that a scale is profiled with: its own first, then the paper's, whatever it trains; smoke has its own
    alone."""
    return tuple(dict.fromkeys((cfg.scale, "smoke" if cfg.scale == "smoke" else "paper")))


def shaped(shapes: Shapes) -> ScaleConfig:
    """The settings of the scale that has these shapes."""
    return load_scale(shapes)


def subjects(shapes: Shapes, task: str) -> tuple[str, ...]:
    """What is timed beside the dense encoder, which stands first, against itself.

    Every method at the main keep rate, called by its name, and TAP at the other rates, called ``tap@0.30``.
    """
    cfg = shaped(shapes)
    there = {*task_of(cfg, task).methods}
    methods = [name for name in METHODS if name in there and name != DENSE]
    others = [rate for rate in cfg.keep_rates if rate != cfg.main_rate]
    rates = [f"{name}@{rate:.2f}" for name in methods if name in (TAP, *FROZEN) for rate in others]
    return (DENSE, *methods, *rates)


def subject(method: str, rate: float, main_rate: float) -> str:
    """What a profile calls a method at a keep rate."""
    return method if method == DENSE or rate == main_rate else f"{method}@{rate:.2f}"


def method_and_rate(name: str, main_rate: float) -> tuple[str, float]:
    """The method and keep rate that `subject` calls so."""
    method, _, rate = name.partition("@")
    return method, 1.0 if method == DENSE else float(rate or main_rate)


def parameters(key: ProfileKey) -> dict[str, Any]:
    """All that decides what a profile does, as JSON values."""
    settings = task_of(shaped(key.shapes), key.task)
    return {
        "device": key.device,
        "shapes": key.shapes,
        "model": settings.model.model_dump(mode="json"),
        "rate": shaped(key.shapes).main_rate,
        "subjects": list(subjects(key.shapes, key.task)),
        "protocol": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(protocol(key)).items()},
        "split": [list(pair) for pair in PRINTED_SPLITS[key.task]],
        "task": key.task,
    }


def profile_folder(key: ProfileKey) -> Path:
    """Where the profiles of a machine lie, apart from the results of scales."""
    return PROFILES / key.device / key.shapes


def profile_in_use(cfg: ScaleConfig, shapes: Shapes, name: str, root: Path = Path(".")) -> Path | None:
    """The profile that tables show, relative to the project's root: of the machine that the settings name, else of the
    first GPU by name, else of the first CPU; None where there is none.

    Args:
        cfg: settings of the scale.
        shapes: whose shapes were profiled.
        name: cls, seg, det or ``growth``.
        root: the project's folder.
    """
    found = sorted((root / PROFILES).glob(f"{cfg.profile_device or '*'}/{shapes}/{name}.json"))
    found.sort(key=lambda path: not path.parts[-3].startswith("gpu-"))
    return found[0].relative_to(root) if found else None


def profiles_in_use(cfg: ScaleConfig, names: Sequence[str], root: Path = Path(".")) -> list[Path]:
    """The profiles of some tasks that tables of a scale show, as far as they are there."""
    found = (profile_in_use(cfg, shapes, name, root) for shapes in shapes_of(cfg) for name in names)
    return [path for path in found if path is not None]


def device_key(wanted: str, threads: int = 2) -> str:
    """A machine's name in paths: `cpu-` or `gpu-` and its model, such as `gpu-nvidia-h200`.

    Args:
        wanted: the setting `device`: `cpu`, `cuda`, or `auto` for a GPU where there is one.
        threads: CPU threads, which belong to the name since they decide the speed.

    Raises:
        UserError: a GPU is asked for and the driver names none.
    """
    names = [] if wanted == "cpu" else gpu_facts("name")
    if names:
        return f"gpu-{_slug(names[0])}"
    if wanted == "cuda":
        raise UserError("device: 'cuda' asks for a GPU and the driver (nvidia-smi) names none; set device to 'cpu'")
    return f"cpu-{_slug(processor())}-{threads}t"


def gpu_facts(*fields: str) -> list[str]:
    """What the driver says of the first GPU, field by field; empty where there is no driver or no GPU.

    Args:
        fields: as `nvidia-smi --query-gpu` calls them, such as `clocks.max.sm`.
    """
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "-i", "0"]
    found = subprocess.run(query, capture_output=True, text=True, check=False)
    return [part.strip() for part in found.stdout.split(",")] if found.returncode == 0 and found.stdout else []


def check_task(task: str) -> None:
    """Refuses a task that there is not.

    Raises:
        UserError: names those that there are.
    """
    if task not in TASKS:
        raise UserError(f"task: '{task}' is not known; profile one of {', '.join(TASKS)}")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
