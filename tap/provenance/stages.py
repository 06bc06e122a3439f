"""The workflow in a dozen coarse stages, as DVC sees it. Each one has Snakemake make a group of files.

Snakemake decides what a stage has to do, file by file; DVC keeps the data and the weights, and notes in `dvc.lock`
what made what. So stages are few, and what their commands leave in place is never removed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tap.config.datasets import PREPARED
from tap.config.load import SCALES_FOLDER, read_yaml
from tap.config.methods import DENSE, FROZEN, METHODS, PRETRAINING, TAP
from tap.errors import UserError
from tap.provenance.ledger import CHECKPOINTS
from tap.runs import SCALES

RESULTS: Final = "results/${scale}"


@dataclass(frozen=True)
class Stage:
    """A group of files that belong together.

    Attributes:
        name: its name in `dvc.yaml`; the workflow's rule for its files is ``stage_<name>``.
        about: what it makes.
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
    after: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    metrics: str | None = None
    plots: Mapping[str, Mapping[str, str]] | None = None
    verifies: bool = False


STAGES: Final = (
    Stage("data", "Fetch and verify the data, or check a person's own", cached=("data",)),
    Stage("pretrain", "Pre-train one backbone per task", ("data",), (PRETRAINING,)),
    Stage("base", "Train the no-pruning models", ("pretrain",), (DENSE,)),
    Stage("tap", "Train TAP-J at every keep rate", ("base",), (TAP,)),
    Stage(
        "baselines",
        "Train the methods beside TAP-J",
        ("base",),
        tuple(name for name in METHODS if name not in (DENSE, TAP, *FROZEN)),
    ),
    Stage("joint", "Train TAP-F: all tasks together, on one frozen base", ("pretrain",), FROZEN),
    Stage(
        "evaluate",
        "Evaluate and picture every trained model, and control those with a register",
        ("base", "tap", "baselines", "joint"),
        small=("runs", "kept_patches"),
    ),
    Stage(
        "probes",
        "Probe the no-pruning models: criteria at every block, recovery endpoints",
        ("base",),
        small=("probes",),
    ),
    Stage(
        "tables",
        "Build the tables and draw the figures",
        ("evaluate", "probes"),
        small=("tables", "figures"),
        metrics="headline.json",
        plots={"headline.csv": {"x": "encoder_speedup", "y": "score", "template": "scatter"}},
    ),
    Stage("audit", "Give every claim of the paper a verdict", ("tables",), small=("audit",)),
    Stage("verify", "Walk from every result back to the data", ("tables", "audit"), verifies=True),
)
"""In the order of the workflow. A new stage is an entry here; the kinds of jobs say what they make for it."""

BY_NAME: Final[Mapping[str, Stage]] = {stage.name: stage for stage in STAGES}


def stage_of(method: str) -> str:
    """The stage that trains a method."""
    return next(stage.name for stage in STAGES if method in stage.methods)


def data_folders(root: Path | str = ".") -> list[str]:
    """Folders with data that the workflow fetches, at whatever scale; DVC keeps all of them."""
    files = [Path(root) / SCALES_FOLDER / f"{scale}.yaml" for scale in SCALES]
    tasks = [task for file in files for task in read_yaml(file)["tasks"].values()]
    return sorted({task["data"]["root"] for task in tasks if task["data"]["name"] in PREPARED})


def outputs(stage: Stage, roots: Sequence[str] = ()) -> list[str]:
    """Folders and files that DVC keeps for a stage, with ``${scale}`` in place of the scale."""
    weights = [f"{RESULTS}/{CHECKPOINTS}/{stage.name}"] if stage.methods else []
    return [*(roots if stage.cached else ()), *weights]


def small_files(stage: Stage) -> list[str]:
    """Folders and files of a stage that git keeps, with ``${scale}`` in place of the scale."""
    return [f"{RESULTS}/{name}" for name in stage.small]


def stage_named(name: str) -> Stage:
    """A stage by its name.

    Raises:
        UserError: there is none.
    """
    if name not in BY_NAME:
        raise UserError(f"stage '{name}': unknown; one of {', '.join(BY_NAME)}")
    return BY_NAME[name]
