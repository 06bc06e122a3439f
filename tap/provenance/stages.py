"""The workflow in a dozen coarse stages, as DVC sees it. Each one has Snakemake make a group of files.

Snakemake decides what a stage has to do, file by file; DVC keeps the data and the weights, and notes in `dvc.lock`
what made what. So stages are few, and what their commands leave in place is never removed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tap.config.datasets import PREPARED
from tap.config.load import SCALES_FOLDER, read_yaml
from tap.config.methods import DENSE, FROZEN, METHODS, PRETRAINING, TAP
from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.provenance.ledger import CHECKPOINTS
from tap.runs import SCALES

PIPELINE: Final = Path("dvc.yaml")
RESULTS: Final = "results/${scale}"
_CODE: Final = ("tap", "workflow/Snakefile", "workflow/rules")


@dataclass(frozen=True)
class Stage:
    """A group of files that belong together.

    Attributes:
        name: its name in `dvc.yaml`; the workflow's rule for its files is ``stage_<name>``.
        about: what it makes.
        settings: what it reads of a scale's settings, by dotted names. ``*`` stands for every task. Names that not
            every scale has are left out, since DVC wants to find all of them.
        after: stages whose files it needs.
        methods: methods whose weights it trains; DVC keeps them in its cache.
        cached: other folders that DVC keeps in its cache.
        small: folders and files that git keeps, in the scale's results.
        metrics: a JSON file of numbers, in the scale's results.
        plots: a CSV file and how DVC draws it, in the scale's results.
        verifies: whether it ends in a check of all results, which is repeated whenever DVC is asked.
    """

    name: str
    about: str
    settings: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    metrics: str | None = None
    plots: Mapping[str, Mapping[str, str]] | None = None
    verifies: bool = False


_RUNS: Final = ("device", "tasks.*.data", "tasks.*.model", "tasks.*.seeds")
_METHODS: Final = (*_RUNS, "tasks.*.method", "tasks.*.methods", "tasks.*.start_from", "main_rate")

STAGES: Final = (
    Stage("data", "Fetch and verify the data, or check a person's own", ("tasks.*.data",), cached=("data",)),
    Stage("pretrain", "Pre-train one backbone per task", (*_RUNS, "tasks.*.pretrain"), ("data",), (PRETRAINING,)),
    Stage(
        "base",
        "Train the no-pruning models",
        (*_RUNS, "tasks.*.dense", "tasks.*.method", "tasks.*.start_from"),
        ("pretrain",),
        (DENSE,),
    ),
    Stage("tap", "Train TAP-J at every keep rate", (*_METHODS, "keep_rates"), ("base",), (TAP,)),
    Stage(
        "baselines",
        "Train the methods beside TAP-J",
        _METHODS,
        ("base",),
        tuple(name for name in METHODS if name not in (DENSE, TAP, *FROZEN)),
    ),
    Stage(
        "joint",
        "Train TAP-F: all tasks together, on one frozen base",
        (*_METHODS, "keep_rates", "joint", "variants", "controller"),
        ("pretrain",),
        FROZEN,
    ),
    Stage(
        "evaluate",
        "Evaluate and picture every trained model, and control those with a register",
        ("tasks.*.eval", "tasks.*.controls"),
        ("base", "tap", "baselines", "joint"),
        small=("runs", "kept_patches"),
    ),
    Stage(
        "probes",
        "Probe the no-pruning models: criteria at every block, recovery endpoints",
        ("tasks.*.eval", "tasks.*.probes"),
        ("base",),
        small=("probes",),
    ),
    Stage(
        "tables",
        "Build the tables and draw the figures",
        ("main_rate", "keep_rates"),
        ("evaluate", "probes"),
        small=("tables", "figures"),
        metrics="headline.json",
        plots={"headline.csv": {"x": "encoder_speedup", "y": "score", "template": "scatter"}},
    ),
    Stage("audit", "Give every claim of the paper a verdict", ("main_rate",), ("tables",), small=("audit",)),
    Stage("verify", "Walk from every result back to the data", after=("tables", "audit"), verifies=True),
)
"""In the order of the workflow. A new stage is an entry here; the kinds of jobs say what they make for it."""

BY_NAME: Final[Mapping[str, Stage]] = {stage.name: stage for stage in STAGES}


def stage_of(method: str) -> str:
    """The stage that trains a method."""
    return next(stage.name for stage in STAGES if method in stage.methods)


def pipeline(root: Path | str = ".") -> str:
    """The text of `dvc.yaml`.

    Raises:
        UserError: a scale's settings cannot be read.
    """
    scales = {scale: read_yaml(Path(root) / SCALES_FOLDER / f"{scale}.yaml") for scale in SCALES}
    roots = data_folders(root)
    stages = {stage.name: _entry(stage, list(scales.values()), roots) for stage in STAGES}
    head = (
        "# Made by `tap dvc generate` from tap/provenance/stages.py. A stage makes sure that nothing was edited, then\n"
        "# has Snakemake make a group of files. Nothing is removed first (`persist`): Snakemake knows what to redo.\n"
    )
    return head + yaml.safe_dump({"stages": stages}, sort_keys=False, width=120)


def data_folders(root: Path | str = ".") -> list[str]:
    """Folders with data that the workflow fetches, at whatever scale; DVC keeps all of them."""
    files = [Path(root) / SCALES_FOLDER / f"{scale}.yaml" for scale in SCALES]
    tasks = [task for file in files for task in read_yaml(file)["tasks"].values()]
    return sorted({task["data"]["root"] for task in tasks if task["data"]["name"] in PREPARED})


def generate(root: Path | str = ".") -> Path:
    """Writes `dvc.yaml`."""
    return atomic_write(Path(root) / PIPELINE, pipeline(root))


def outputs(stage: Stage, roots: Sequence[str] = ()) -> list[str]:
    """Folders and files that DVC keeps for a stage, with ``${scale}`` in place of the scale."""
    weights = [f"{RESULTS}/{CHECKPOINTS}/{stage.name}"] if stage.methods else []
    return [*(roots if stage.cached else ()), *weights]


def _entry(stage: Stage, scales: Sequence[Mapping[str, Any]], roots: Sequence[str]) -> dict[str, Any]:
    check = "tap verify" if stage.verifies else "tap verify --allow missing --allow stale"
    command = [check] if stage.verifies else [check, f"snakemake stage_{stage.name}"]
    if stage.methods or stage.cached:
        command.append(f"tap dvc collect {stage.name}")
    before = [BY_NAME[name] for name in stage.after]
    entry: dict[str, Any] = {
        "desc": stage.about,
        "cmd": command,
        "deps": [*_CODE, *(path for other in before for path in (*outputs(other, roots), *_small(other)))],
        "params": [
            "scale",
            "tasks",
            "overrides.${scale}",
            {f"{SCALES_FOLDER.as_posix()}/${{scale}}.yaml": _common_settings(stage.settings, scales)},
        ],
    }
    if not stage.settings:
        del entry["params"][-1]
    outs: list[Any] = [{path: {"persist": True}} for path in outputs(stage, roots)]
    outs += [{path: {"cache": False, "persist": True}} for path in _small(stage)]
    if outs:
        entry["outs"] = outs
    if stage.metrics:
        entry["metrics"] = [{f"{RESULTS}/{stage.metrics}": {"cache": False, "persist": True}}]
    if stage.plots:
        entry["plots"] = [
            {f"{RESULTS}/{name}": {"cache": False, "persist": True, **drawn}} for name, drawn in stage.plots.items()
        ]
    if stage.verifies:
        entry["always_changed"] = True
    return entry


def _small(stage: Stage) -> list[str]:
    return [f"{RESULTS}/{name}" for name in stage.small]


def _common_settings(names: Sequence[str], scales: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of the names that every scale has, with each task in place of the star."""
    tasks = [task for task in scales[0]["tasks"] if all(task in scale["tasks"] for scale in scales)]
    spelled = [name.replace("*", task) for name in names for task in (tasks if "*" in name else [""])]
    return sorted({name for name in spelled if all(_has(scale, name) for scale in scales)})


def _has(tree: Any, name: str) -> bool:
    for part in name.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True


def stage_named(name: str) -> Stage:
    """A stage by its name.

    Raises:
        UserError: there is none.
    """
    if name not in BY_NAME:
        raise UserError(f"stage '{name}': unknown; one of {', '.join(BY_NAME)}")
    return BY_NAME[name]
