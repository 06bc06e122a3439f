"""Results of a scale as others read them: a verified copy in `published/<scale>`, and a page that says what they are.

Nothing in `published` is an input of any rule. Weights are not copied: they travel in a bundle
(`tap.provenance.bundle`).
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.bundle import hash_and_left_out
from tap.provenance.checkpoints import WEIGHTS
from tap.provenance.ledger import PROFILES, Ledger, read_ledger
from tap.provenance.publish import published_folder
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import Staleness, require, verify
from tap.provenance.weight_selection import claims_resting_on

README: Final = "README.md"
NEEDED: Final = ("table", "figure", "headline", "audit")
"""Kinds of jobs that a finished scale has."""


@dataclass(frozen=True)
class PublishedBundle:
    """The archive of weights that goes with published results.

    Attributes:
        name: of the archive.
        sha256: of the archive.
        megabytes: its size.
        left_out: names of weights that are not in it.
        address: where others get it; empty if the page does not say.
    """

    name: str
    sha256: str
    megabytes: float
    left_out: tuple[str, ...] = ()
    address: str = ""

    @classmethod
    def of(cls, archive: Path, cfg: ScaleConfig, address: str = "") -> PublishedBundle:
        """What a page says of an archive that is here.

        Raises:
            UserError: it is not the archive of its hash, or is of another scale.
        """
        digest, left_out = hash_and_left_out(archive, cfg)
        return cls(archive.name, digest, archive.stat().st_size / 1e6, left_out, address)

    def __str__(self) -> str:
        place = f" at {self.address}" if self.address else ""
        return f"`{self.name}`{place} ({self.megabytes:.1f} MB, sha256 `{self.sha256}`)"


def publish_results(
    cfg: ScaleConfig,
    staleness: Staleness,
    bundle: PublishedBundle | None = None,
    root: Path | str = ".",
) -> Path:
    """Copies a finished and verified scale to `published/<scale>`, in place of what was published before.

    Args:
        cfg: settings of the scale.
        staleness: judges each record by the code and the settings of today.
        bundle: the archive in which its weights are published; None if they are not.
        root: the project's folder.

    Returns:
        The folder.

    Raises:
        UserError: a result is not sound, the scale is not finished, or the folder cannot be written; what was
            published stays then.
    """
    root = Path(root)
    found = verify(cfg, staleness, root=root)
    require(found)
    jobs = {record.job for record in found.ledger.records.values()}
    if missing := [kind for kind in NEEDED if kind not in jobs]:
        raise UserError(f"results/{cfg.scale}: no {missing[0]} yet; `snakemake` and `snakemake audit` finish the scale")
    own = f"results/{cfg.scale}/"
    shown = (own, f"results/{PROFILES}/")
    files = [name for name in found.ledger.files if name.startswith(shown) and not name.endswith(f"/{WEIGHTS}")]
    folder = root / published_folder(cfg.scale)
    new = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    old = new.with_suffix(".old")
    try:
        for name in files:
            target = new / (name.removeprefix(own) if name.startswith(own) else name.removeprefix("results/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target)
        (new / README).write_text(readme(cfg, read_ledger(cfg, root, results=new), commit_of(root), bundle), "utf-8")
        if folder.is_dir():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); what was there stays") from error
    finally:
        if old.is_dir() and not folder.is_dir():
            old.rename(folder)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder


def readme(cfg: ScaleConfig, ledger: Ledger, commit: str, bundle: PublishedBundle | None = None) -> str:
    """The page of published results, in Markdown.

    Args:
        cfg: settings of the scale.
        ledger: the records of the published copy.
        commit: of the project, in words.
        bundle: the archive in which the weights are published; None if they are not.

    Raises:
        UserError: there are no records.
    """
    records = [record for name, record in ledger.records.items() if name.startswith(f"results/{cfg.scale}/")]
    computed = [record.content for record in records if record.job in ("train", "evaluate", "probe")]
    weights = {
        name: int(facts["bytes"])
        for record in records
        for name, facts in record.outputs.items()
        if name.endswith(f"/{WEIGHTS}")
    }
    days = {str(record.content[key])[:10] for record in records for key in ("started", "ended")}
    size = f"{len(weights)} files of weights, {sum(weights.values()) / 1e6:.1f} MB in float32"
    device, system = (_said(content[key] for content in computed) for key in ("device", "system"))
    pins = "[what it pins down](../../docs/evidence.md)"
    lines = [
        f"# Published results of scale {cfg.scale}",
        "",
        "Written by `tap publish results`; to be read, never an input of the workflow, which makes its own in",
        f"`results/{cfg.scale}`. Records call these files `results/{cfg.scale}/...`.",
        "",
        "| | |",
        "|---|---|",
        f"| made by | commit {commit}; the records have the fingerprint of the code of each job |",
        f"| when | {' to '.join(sorted({min(days), max(days)}))} |",
        f"| on | {device}; {system} |",
        f"| with | {_versions([content['versions'] for content in computed])} |",
        f"| root hash | `{root_hash(ledger)}` over {len(records)} records ({pins}) |",
        f"| weights | {size}; {_where(bundle, len(weights))} |",
        "",
        "`tap verify --published` compares every file with its record, `tap report published` shows the tables, "
        "`tap compare published` sets your own results beside them.",
    ]
    if bundle is None or bundle.left_out:
        lines += ["", *_not_deep(cfg, ledger, None if bundle is None else bundle.left_out)]
    return "\n".join(lines) + "\n"


def commit_of(root: Path | str) -> str:
    """The commit that is checked out, in words; says so where files of the project differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "HEAD")
    if not commit:
        return "unknown (no git repository)"
    edited = git("status", "--porcelain", "--untracked-files=no", "--", "tap", "workflow", "params.yaml")
    return f"`{commit[:12]}`{' with local changes' if edited else ''}"


def _where(bundle: PublishedBundle | None, of: int) -> str:
    if bundle is None:
        return "**not published**"
    part = f"{of - len(bundle.left_out)} of {of} published" if bundle.left_out else "published"
    return f"{part} in {bundle}"


def _not_deep(cfg: ScaleConfig, ledger: Ledger, left_out: Sequence[str] | None) -> list[str]:
    """What nobody can check without the weights that are not published; all of them if None."""
    named = claims_resting_on(ledger.place(f"results/{cfg.scale}/audit/audit.json"), left_out)
    return [
        "## What cannot be verified without the weights",
        "",
        "`tap verify --deep --published` makes scores, intervals, tables, figures and verdicts anew from the values of "
        "single images. That these values come from trained models can be checked by evaluating images again, which "
        f"needs the weights; without {'them' if left_out is None else 'those left out'}, {len(named)} claims of the "
        "audit rest on values that can only be made "
        f"anew by training: {', '.join(f'`{claim}`' for claim in named) or 'none'}.",
    ]


def _said(values: Iterable[str]) -> str:
    return "; ".join(sorted(set(values))) or "nothing recorded"


def _versions(versions: Sequence[dict[str, str]]) -> str:
    """Every library with the versions that jobs used."""
    names = sorted({name for found in versions for name in found})
    return ", ".join(f"{name} {_said(found[name] for found in versions if name in found)}" for name in names)
