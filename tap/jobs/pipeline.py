"""`dvc.yaml`, from the stages and from what their jobs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tap.config.load import SCALES_FOLDER, read_yaml
from tap.config.scale import ScaleConfig
from tap.jobs.stage_settings import settings_read
from tap.provenance.files import atomic_write
from tap.provenance.stages import BY_NAME, RESULTS, STAGES, Stage, data_folders, outputs, small_files
from tap.runs import SCALES

PIPELINE: Final = Path("dvc.yaml")
_CODE: Final = ("tap", "workflow/Snakefile", "workflow/rules")


def pipeline(root: Path | str = ".") -> str:
    """The text of `dvc.yaml`.

    Raises:
        UserError: a scale's settings cannot be read.
    """
    roots, settings = data_folders(root), _settings(Path(root))
    stages = {stage.name: _entry(stage, settings[stage.name], roots) for stage in STAGES}
    head = (
        "# Made by `tap dvc generate` from tap/provenance/stages.py and the kinds of jobs. A stage makes sure that\n"
        "# nothing was edited, then has Snakemake make a group of files. Nothing is removed first (`persist`):\n"
        "# Snakemake knows what to redo.\n"
    )
    return head + yaml.safe_dump({"stages": stages}, sort_keys=False, width=120)


def generate(root: Path | str = ".") -> Path:
    """Writes `dvc.yaml`."""
    return atomic_write(Path(root) / PIPELINE, pipeline(root))


def _entry(stage: Stage, settings: Sequence[str], roots: Sequence[str]) -> dict[str, Any]:
    check = "tap verify" if stage.verifies else "tap verify --allow missing --allow stale"
    command = [check] if stage.verifies else [check, f"snakemake stage_{stage.name}"]
    if stage.methods or stage.cached:
        command.append(f"tap dvc collect {stage.name}")
    before = [BY_NAME[name] for name in stage.after]
    entry: dict[str, Any] = {
        "desc": stage.about,
        "cmd": command,
        "deps": [*_CODE, *(path for other in before for path in (*outputs(other, roots), *small_files(other)))],
        "params": [
            "scale",
            "tasks",
            "overrides.${scale}",
            {f"{SCALES_FOLDER.as_posix()}/${{scale}}.yaml": list(settings)},
        ],
    }
    if not settings:
        del entry["params"][-1]
    outs: list[Any] = [{path: {"persist": True}} for path in outputs(stage, roots)]
    outs += [{path: {"cache": False, "persist": True}} for path in small_files(stage)]
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


def _settings(root: Path) -> dict[str, list[str]]:
    """What every stage reads of the settings, by dotted names that every scale has: DVC wants to find all of them."""
    trees = [read_yaml(root / SCALES_FOLDER / f"{scale}.yaml") for scale in SCALES]
    tasks = [task for task in trees[0]["tasks"] if all(task in tree["tasks"] for tree in trees)]
    found: dict[str, set[str]] = {stage.name: set() for stage in STAGES}
    for tree in trees:
        for stage, names in settings_read(ScaleConfig.model_validate(tree)).items():
            found[stage] |= {name.replace("*", task) for name in names for task in (tasks if "*" in name else [""])}
    return {stage: sorted(n for n in names if all(_has(tree, n) for tree in trees)) for stage, names in found.items()}


def _has(tree: Any, name: str) -> bool:
    for part in name.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True
