"""Makes anew what is missing or unsound behind some targets, and nothing else.

Plain Snakemake makes everything anew that comes after a job which runs again, since it plans before it knows the new
bytes. Made alone and first, the usual case, the same bytes as before, repeats nothing: what was made from them is as
new as their checksum.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.chain import Chain
from tap.provenance.verify import Staleness


def remake(cfg: ScaleConfig, staleness: Staleness, targets: Sequence[str] = (), root: Path | str = ".") -> int:
    """Has Snakemake run the jobs of missing and unsound files, as far as targets need them.

    Args:
        cfg: settings of the scale.
        staleness: judges records by the code and the settings of today.
        targets: files or rules, as for Snakemake; all results if none is given.
        root: the project's folder.

    Returns:
        Number of files that were made.

    Raises:
        UserError: Snakemake cannot make them; it has said why.
    """
    chain = Chain(cfg, root, staleness)
    if not chain.wrong:
        return 0
    files = [
        file for file in _behind(cfg.scale, targets, root) if chain.reason([file]) is not None or file in chain.wrong
    ]
    if files and subprocess.run(_snakemake(cfg.scale, files), cwd=root).returncode != 0:
        raise UserError("snakemake could not make again what is missing; it says above why")
    return len(files)


def _behind(scale: str, targets: Sequence[str], root: Path | str) -> list[str]:
    """Files that the workflow makes for some targets."""
    done = subprocess.run(_snakemake(scale, [*targets, "--summary"]), cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(f"snakemake cannot plan {' '.join(targets)}: {done.stderr.strip()[-600:]}")
    lines = done.stdout.splitlines()
    return [line.split("\t")[0] for line in lines[1:]]


def _snakemake(scale: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments, "--config", f"scale={scale}"]
