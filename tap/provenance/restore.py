"""Results of a clone taken for done: verified first, then made known to Snakemake.

After `git clone` and `dvc pull` the files have the times of the checkout, in no order, and Snakemake, which knows
nothing of how they were made, would make them all again. Once every hash is right, `snakemake --touch` gives them times
in the order of the graph and notes the parameters of their jobs, so that a later edit repeats what it concerns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tap.config.load import load_params
from tap.config.schema import ScaleConfig
from tap.errors import UserError
from tap.provenance.checkpoints import bring_back, kept_weights
from tap.provenance.finding import Kind
from tap.provenance.finding_lines import finding_lines
from tap.provenance.publish import publish, published
from tap.provenance.verify import Verification, require, verify

_LONG_AGO = 86400.0


def restore(cfg: ScaleConfig, root: Path | str = ".") -> str:
    """Verifies the results of a scale and has Snakemake take those for done that are what it would make.

    Returns:
        What was done, in words.

    Raises:
        UserError: a file is edited or of unknown origin, nothing is there to restore, or another workflow is running.
            Nothing is touched in the first two cases.
    """
    root = Path(root)
    kept = kept_weights(cfg, root)
    found = verify(cfg, root=root, elsewhere=kept)
    require(found, allowed=(Kind.MISSING, Kind.STALE))
    unsound = found.unsound()
    sound = [name for name in found.order if name not in unsound]
    if not sound:
        require(found)
        raise UserError(f"results/{cfg.scale}: nothing to restore; `dvc pull` brings it, `snakemake` makes it")
    bring_back(kept, root)
    targets = _last(found, sound)
    if load_params(root).scale == cfg.scale:
        targets = [*_publish(cfg.scale, found, sound, root), *targets]
    _touch(cfg.scale, targets, root)
    for name in unsound:
        for file in found.ledger.records[name].outputs:
            place = found.ledger.place(file)
            if place is not None and place.is_file():
                os.utime(place, (_LONG_AGO, _LONG_AGO))  # older than its inputs: Snakemake makes it again
    lines = [f"restored {len(sound)} of {len(found.order)} jobs of scale {cfg.scale}"]
    lines += [f"  not restored, snakemake makes it again: {line}" for line in finding_lines(found.findings)]
    return "\n".join(lines)


def _last(found: Verification, sound: list[str]) -> list[str]:
    """A file of each sound job that no other sound job builds on."""
    used = {source for name in sound for source in found.ledger.sources(name)}
    return [next(iter(found.ledger.records[name].outputs), name) for name in sound if name not in used]


def _publish(scale: str, found: Verification, sound: list[str], root: Path) -> list[str]:
    """Puts tables and figures back where a reader looks, which neither git nor DVC keeps."""
    files = []
    for name in sound:
        record = found.ledger.records[name]
        if record.job in ("table", "figure"):
            known = str(record.content["parameters"][record.job])
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
