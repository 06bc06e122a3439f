"""Results of a clone taken for done: verified first, then made known to Snakemake.

Unpacked or pulled files have the times of that moment, in no order, and Snakemake, which knows
nothing of how they were made, would make them all again. Once every hash is right, `snakemake --touch` gives them times
in the order of the graph and notes the parameters of their jobs, so that a later edit repeats what it concerns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from tap.config.load import load_params
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.bundle import cannot_be_evaluated
from tap.provenance.checkpoints import bring_back, kept_weights
from tap.provenance.finding import Kind
from tap.provenance.finding_lines import finding_lines
from tap.provenance.publish import publish, published
from tap.provenance.record import DATA_RECORD
from tap.provenance.verify import Staleness, Verification, require, verify
from tap.provenance.weight_selection import claims_resting_on

_LONG_AGO = 86400.0
SHOWN = 3
"""So many kinds of findings are named."""


def restore(cfg: ScaleConfig, staleness: Staleness, root: Path | str = ".", left_out: Collection[str] = ()) -> str:
    """Verifies the results of a scale and has Snakemake take those for done that are what it would make.

    Args:
        cfg: settings of the scale.
        staleness: judges each record by the code and the settings of today.
        root: the project's folder.
        left_out: weights that the archive which the results are from leaves out, and says so: to be told, no error.

    Returns:
        What was done, in words.

    Raises:
        UserError: a file is edited or of unknown origin, nothing is there to restore, or another workflow is running:
            nothing is touched in the first two cases. Or a table would rest on files that are not there: everything
            whole is restored then, and the workflow makes the rest.
    """
    root = Path(root)
    kept = kept_weights(cfg, root)
    found = verify(cfg, staleness, root=root, elsewhere=kept)
    require(found, allowed=(Kind.MISSING, Kind.STALE))
    unsound = found.unsound()
    sound = [name for name in found.order if name not in unsound]
    if not found.order:
        raise UserError(f"results/{cfg.scale}: nothing to restore; `tap restore --bundle FILE` brings it, or snakemake")
    bring_back(kept, root)
    targets = _last(found, sound, cfg)
    if load_params(root).scale == cfg.scale:
        targets = [*_publish(cfg.scale, found, sound, root), *targets]
    if targets:
        _touch(cfg.scale, targets, root)
    for name in unsound:
        for file in found.ledger.records[name].outputs:
            place = found.ledger.place(file)
            if place is not None and place.is_file():
                os.utime(place, (_LONG_AGO, _LONG_AGO))  # older than its inputs: Snakemake makes it again
    done = f"restored {len(sound)} of {len(found.order)} jobs of scale {cfg.scale}"
    if (on_air := _on_air(found, left_out)) > 0:
        raise UserError(f"{done}; {on_air} tables and figures would rest on what is not there: {_not_whole(found)}")
    if absent := {finding.path for finding in found.findings if finding.kind == Kind.MISSING} & set(left_out):
        claims = claims_resting_on(found.ledger.place(f"results/{cfg.scale}/audit/audit.json"), absent)
        rest = f"; {cannot_be_evaluated(claims)}" if claims else ""
        return f"{done}; the archive leaves out the weights of {len(absent)} runs, which snakemake trains{rest}"
    return f"{done}; snakemake makes again: {_not_whole(found)}" if unsound else done


def _on_air(found: Verification, left_out: Collection[str]) -> int:
    """How many records of tables and figures rest, directly or not, on files that are missing and were not left out."""
    missing = (finding for finding in found.findings if finding.kind == Kind.MISSING)
    airy = {finding.record for finding in missing if finding.path not in left_out}
    for name in found.order:
        if found.ledger.sources(name) & airy:
            airy.add(name)
    return sum(found.ledger.records[name].job in ("table", "figure") for name in airy & found.ledger.records.keys())


def _not_whole(found: Verification) -> str:
    """What is missing or stale, in one line."""
    lines = finding_lines(found.findings)
    return "; ".join(lines[:SHOWN]) + (f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else "")


def _last(found: Verification, sound: list[str], cfg: ScaleConfig) -> list[str]:
    """A file of each sound job that no other sound job builds on, but for data of tasks that are not asked for."""
    records = found.ledger.records
    used = {source for name in sound for source in found.ledger.sources(name)}
    asked = {f"{task.data.root}/{DATA_RECORD}" for task in cfg.tasks.values()}
    others = {f"{task.data.root}/{DATA_RECORD}" for task in cfg.all_tasks.values()} - asked
    return [next(iter(records[name].outputs), name) for name in sound if name not in used | others]


def _publish(scale: str, found: Verification, sound: list[str], root: Path) -> list[str]:
    """Puts tables and figures back where a reader looks, which neither git nor DVC keeps."""
    files = []
    for name in sound:
        record = found.ledger.records[name]
        if record.job in ("table", "figure", "paper_page"):
            known = str(record.content["parameters"]["figure" if record.job == "figure" else "table"])
            copied = published(known)
            if not (root / copied).is_file():
                publish(known, scale, root)
            files.append(copied.as_posix())
    return files


def _touch(scale: str, targets: Iterable[str], root: Path) -> None:
    """Times in the order of the graph, and the parameters of every job, as Snakemake keeps them.

    Raises:
        UserError: Snakemake refuses, with what it said.
    """
    command = [sys.executable, "-m", "snakemake", *targets, "--touch", "--forceall", "--config", f"scale={scale}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(f"snakemake --touch failed: {done.stderr.strip()[-600:]}")
