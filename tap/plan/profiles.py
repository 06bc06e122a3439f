"""What a profile measures, and on which machine: known without torch, so that the workflow can name its files."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tap.config.load import load_scale
from tap.config.methods import DENSE, METHODS, TAP
from tap.config.schema import ScaleConfig
from tap.errors import UserError
from tap.plan.runs import task_of
from tap.provenance.record import processor
from tap.task_facts import TASKS

Shapes = Literal["paper", "smoke"]
Split = tuple[tuple[float, float], ...]

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
        repeats: how often a disturbed profile is taken again.
        memory_iterations: passes of which the largest peak counts, at batch 1.
        full: methods whose full model is timed beside their encoder; None for all.
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
_CPU_ITERATIONS: Final = dict.fromkeys(TASKS, 5) | {"cls": 15, "seg": 10}


def protocol(key: ProfileKey) -> Protocol:
    """The paper's protocol on a GPU; on a CPU float32, smaller batches and fewer passes. Smoke shows that it runs."""
    if key.shapes == "smoke":
        return Protocol(2, "fp32", 1, 2, 2, 0, 1, (TAP,), False, 1)
    if key.device.startswith("cpu-"):
        iterations = _CPU_ITERATIONS[key.task]
        return Protocol(_CPU_BATCH[key.task], "fp32", 1, iterations, 5, 2, 1, (TAP,), False, 2)
    return Protocol(_PAPER_BATCH[key.task], "bf16", 100, 500, 5, 2, 50, None, True, 0)


def shapes_of(cfg: ScaleConfig) -> Shapes:
    """The shapes that a scale is profiled with: the paper's, whatever the scale trains; smoke stays small."""
    return "smoke" if cfg.scale == "smoke" else "paper"


def shaped(shapes: Shapes) -> ScaleConfig:
    """The settings of the scale that has these shapes, as its file gives them."""
    return load_scale(shapes)


def profiled_methods(shapes: Shapes, task: str) -> tuple[str, ...]:
    """The methods that are timed beside the dense encoder, which stands first, against itself."""
    there = {*task_of(shaped(shapes), task).methods}
    return (DENSE, *(name for name in METHODS if name in there and name != DENSE))


def parameters(key: ProfileKey) -> dict[str, Any]:
    """All that decides what a profile does, as JSON values."""
    settings = task_of(shaped(key.shapes), key.task)
    return {
        "device": key.device,
        "shapes": key.shapes,
        "model": settings.model.model_dump(mode="json"),
        "rate": shaped(key.shapes).main_rate,
        "methods": list(profiled_methods(key.shapes, key.task)),
        "protocol": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(protocol(key)).items()},
        "split": [list(pair) for pair in PRINTED_SPLITS[key.task]],
        "task": key.task,
    }


def profile_folder(key: ProfileKey) -> Path:
    """Where the profiles of a machine lie, apart from the results of scales."""
    return Path("results") / "profiles" / key.device / key.shapes


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
