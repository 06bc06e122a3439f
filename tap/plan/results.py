"""Where the results of a scale lie, and what stands behind each group of tables and figures.

Jobs say from this what they wait for, and tables and figures name in their records what was there of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.plan.controls import files_of_controls
from tap.plan.runs import FURTHER, probe_folder, probes_of, runs_of_table, runs_of_tidy
from tap.plan.shown_runs import pictured_path, tasks_shown
from tap.runs import Run
from tap.task_facts import TASKS

METRICS: Final = "metrics.json"
"""Of an evaluation, in the folder of its run."""
PROBES: Final = "probes_"
"""How the tidy table of a task's probes is called, before the task."""
CONTROLS: Final = "controls_"
"""How the list of what was verified of a task's controls is called, before the task."""

_TIDY: Final[Mapping[str, tuple[str, ...]]] = {
    "runs": ("",),
    "main": ("",),
    "rates": ("", FURTHER),
    "controls": ("", FURTHER),
    "pictures": ("",),
    "probes": (PROBES,),
}
"""The tidy tables of a task that a group of tables or figures reads; none where only settings or profiles are read."""


def tidy_path(scale: str, of: str) -> Path:
    """Where a tidy table is, relative to the project's root: of the runs of a main table, called by its task; of the
    task's further ones (``further_<task>``); or of its probes (``probes_<task>``)."""
    return Path("results") / scale / f"tidy_{of}.csv"


def tidy_paths(scale: str, task: str) -> list[Path]:
    """Both tidy tables of a task's runs."""
    return [tidy_path(scale, task), tidy_path(scale, f"{FURTHER}{task}")]


def verified_path(scale: str, of: str) -> Path:
    """The list of all files behind a tidy table, or of controls (``controls_<task>``), with their hashes, as they were
    when its tables were made."""
    return Path("results") / scale / f"verified_{of}.json"


def results_of_runs(cfg: ScaleConfig, of: str) -> list[Path]:
    """What the runs of a tidy table measured, with the records of their trainings: ``<task>`` or ``further_<task>``."""
    names = (METRICS, "per_sample.npz", "run.json")
    return [run.folder / name for run in runs_of_tidy(cfg, of) for name in names]


def results_of_probes(cfg: ScaleConfig, task: str) -> list[Path]:
    """What the probes of a task measured, with their records."""
    folders = [probe_folder(cfg.scale, task, kind) for kind in probes_of(task)]
    return [folder / name for folder in folders for name in ("values.csv", "per_sample.npz", "probe.json")]


def floor_runs(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs that say whether no pruning is above its floors: no pruning itself, and with a random encoder; none of
    classification, which has no floors, nor of a task that the scale leaves out."""
    if not TASKS[task].floors or task not in cfg.tasks:
        return []
    return [run for run in runs_of_table(cfg, task) if run.method == DENSE]


def results_of_pictures(cfg: ScaleConfig, task: str) -> list[Path]:
    """An image of a task under the methods of the paper's figure; none where nothing is removed."""
    return [pictured_path(cfg.scale, task)] if task in tasks_shown(cfg) else []


_RESULTS: Final = {"probes": results_of_probes, "controls": files_of_controls, "pictures": results_of_pictures}
"""What a group reads beside tidy tables."""


def files_behind(cfg: ScaleConfig, group: str, tasks: Iterable[str]) -> dict[str, list[Path]]:
    """What tables and figures of a group are made from, by short names; nothing where only settings or profiles are.

    Args:
        cfg: settings of the scale.
        group: what they read, as they declare it (``READS``); ``runs`` is what a main table reads.
        tasks: whose results.
    """
    tasks, tidy = list(tasks), _TIDY.get(group, ())
    verified = (*tidy, *([CONTROLS] if group == "controls" else []))
    results = _RESULTS.get(group)
    return {
        "tidy": [tidy_path(cfg.scale, f"{of}{task}") for of in tidy for task in tasks],
        "verified": [verified_path(cfg.scale, f"{of}{task}") for of in verified for task in tasks],
        "results": [file for task in tasks for file in (results(cfg, task) if results is not None else ())],
        "floors": [run.folder / METRICS for task in tasks if group == "probes" for run in floor_runs(cfg, task)],
    }
