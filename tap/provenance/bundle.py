"""Weights that travel: one archive of a scale's results, with the weights that others need to check them.

An archive holds the small files of a scale (records, scores, per-image values, tables, figures), the weights that were
asked for, and a list of both with their hashes. Beside it lies its own hash, as `sha256sum` writes it. Unpacking
looks at that first, takes nothing but what the list names, and overwrites nothing. Equal results give equal bytes. The
list also names the weights that the archive leaves out.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.files import atomic_write, sha256_file
from tap.provenance.ledger import CHECKPOINTS, PROFILES
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import Staleness, require, verify
from tap.provenance.weight_selection import WeightSelection, all_weights, claims_resting_on

LIMIT_MB: Final = 60.0
"""What an archive may have unless another limit is given: a release file that anyone can fetch in a minute."""
FOLDER: Final = Path("bundles")
LIST: Final = "bundle.json"
SUFFIX: Final = ".sha256"
EVERY_METHOD: Final = WeightSelection()
_BROKEN: Final = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, KeyError)


@dataclass(frozen=True)
class Bundle:
    """An archive that was written.

    Attributes:
        path: the archive; its hash lies beside it.
        weights: how many files of weights are in it, of how many that the scale has.
        of: how many there are.
        weight_bytes: size of those in it, and of all.
        all_bytes: size of all.
        claims: claims of the audit that rest on runs whose weights are not in it.
    """

    path: Path
    weights: int
    of: int
    weight_bytes: int
    all_bytes: int
    claims: tuple[str, ...] = ()

    def __str__(self) -> str:
        without = f"; without those left out, {cannot_be_evaluated(self.claims)}" if self.claims else ""
        return (
            f"{self.path}: {self.path.stat().st_size / 1e6:.1f} MB with {self.weights} of {self.of} files of weights "
            f"({self.weight_bytes / 1e6:.1f} of {self.all_bytes / 1e6:.1f} MB before compression){without}"
        )


@dataclass(frozen=True)
class Unpacked:
    """An archive whose files are in place.

    Attributes:
        new: how many files were put there; others were there already with the same bytes.
        left_out: names of weights that the scale has and the archive has not.
    """

    new: int
    left_out: tuple[str, ...]


def cannot_be_evaluated(claims: Sequence[str]) -> str:
    """What lacking weights mean for the audit, in words."""
    return f"{len(claims)} claims rest on images that nobody can evaluate anew: {', '.join(claims)}"


def write_bundle(
    cfg: ScaleConfig,
    staleness: Staleness,
    path: Path | None = None,
    selection: WeightSelection = EVERY_METHOD,
    limit_mb: float = LIMIT_MB,
    root: Path | str = ".",
) -> Bundle:
    """Packs a finished scale.

    Args:
        cfg: settings of the scale.
        staleness: judges each record by the code and the settings of today.
        path: the archive; ``bundles/<scale>.tar.gz`` if not given, with the selection in its name.
        selection: whose weights; one seed of each method of the main tables if not given.
        limit_mb: size that the archive must not exceed.
        root: the project's folder.

    Raises:
        UserError: a result is not sound, the scale has nothing of the selection, or the archive would be too large;
            none is left then.
    """
    root = Path(root)
    found = verify(cfg, staleness, root=root)
    require(found)
    results = f"results/{cfg.scale}/"
    files = [name for name in found.ledger.files if name.startswith((results, f"results/{PROFILES}/"))]
    weights = set(all_weights(found.ledger)) & set(files)
    if not files:
        raise UserError(f"results/{cfg.scale}: nothing to pack; `snakemake` makes it")
    chosen = selection.weights(cfg, found.ledger) & weights
    left_out = sorted(weights - chosen)
    packed = sorted(set(files) - weights | chosen)
    path = root / (path or FOLDER / f"{cfg.scale}{selection.suffix}.tar.gz")
    listed = {name: found.files.get(name) or sha256_file(root / name) for name in packed}
    content = {"scale": cfg.scale, "root_hash": root_hash(found.ledger), "files": listed, "left_out": left_out}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _pack(temporary, content, root)
        if (size := temporary.stat().st_size) > limit_mb * 1e6:
            raise UserError(
                f"{path}: would have {size / 1e6:.1f} MB, more than {limit_mb:g} MB; the weights of {len(chosen)} of "
                f"{len(weights)} runs are {_size(root, chosen) / 1e6:.1f} MB of it; choose with --task, --method and "
                "--seed, or allow more with --limit-mb"
            )
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose a folder with free space") from error
    finally:
        temporary.unlink(missing_ok=True)
    atomic_write(path.with_name(path.name + SUFFIX), f"{sha256_file(path)}  {path.name}\n")
    claims = claims_resting_on(found.ledger.place(f"{results}audit/audit.json"), left_out)
    return Bundle(path, len(chosen), len(weights), _size(root, chosen), _size(root, weights), tuple(claims))


def hash_and_left_out(archive: Path | str, cfg: ScaleConfig) -> tuple[str, tuple[str, ...]]:
    """The hash of an archive, and names of weights that the scale has and it has not, by its own list; nothing is
    unpacked.

    Raises:
        UserError: the archive is not the one of its hash, is no such archive, or is of another scale.
    """
    archive = Path(archive)
    digest = _expect_hash(archive)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            return digest, _read_list(archive, tar, cfg.scale)[1]
    except _BROKEN as error:
        raise UserError(f"{archive}: cannot be read ({error}); fetch it again") from error


def unpack_bundle(archive: Path | str, cfg: ScaleConfig, root: Path | str = ".") -> Unpacked:
    """Puts the files of an archive in place, after all of them were checked.

    Args:
        archive: what `write_bundle` wrote, with its ``.sha256`` beside it.
        cfg: settings of the scale.
        root: the project's folder.

    Returns:
        How many files were put in place, and which weights the archive leaves out.

    Raises:
        UserError: the archive is not the one of its hash, is of another scale, is no such archive, holds anything but
            what its list names, or a file of the project differs. Nothing is put in place then.
    """
    archive, root = Path(archive), Path(root)
    _expect_hash(archive)
    place = root / ".tap" / f"unpacked.{secrets.token_hex(4)}"
    try:
        listed, left_out = _unpack(archive, cfg.scale, place)
        new = []
        for name, digest in listed.items():
            if not (root / name).exists():
                new.append(name)
            elif sha256_file(root / name) != digest:
                raise UserError(f"{name}: is there with other content; move it away first, nothing was unpacked")
        for name in new:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(place / name, root / name)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Unpacked(len(new), left_out)


def _pack(path: Path, content: dict, root: Path) -> None:
    """Writes the archive: sorted names, no times, owners or places."""
    text = json.dumps(content, indent=1, sort_keys=True).encode()
    with (
        open(path, "wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, LIST, io.BytesIO(text), len(text))
        for name in content["files"]:
            with open(root / name, "rb") as source:
                _add(tar, name, source, os.fstat(source.fileno()).st_size)


def _add(tar: tarfile.TarFile, name: str, source: io.BufferedIOBase, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    tar.addfile(entry, source)


def _expect_hash(archive: Path) -> str:
    """The archive's hash, if it is the one beside it."""
    beside = archive.with_name(archive.name + SUFFIX)
    if not archive.is_file():
        raise UserError(f"{archive}: is not there; give the archive that `tap publish bundle` wrote")
    if not beside.is_file():
        raise UserError(f"{beside}: is not there; fetch it with the archive, or write the published hash to it")
    match = re.match(r"[0-9a-f]{64}\b", beside.read_text(encoding="utf-8", errors="replace"))
    if match is None:
        raise UserError(f"{beside}: holds no sha256; fetch it again")
    if sha256_file(archive) != match[0]:
        raise UserError(f"{archive}: is not the file of {beside.name} (cut off, or another one); fetch both again")
    return match[0]


def _unpack(archive: Path, scale: str, place: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Unpacks into a folder of its own and compares with the list.

    Returns:
        Hashes by name, and names of weights that were left out.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            listed, left_out = _read_list(archive, tar, scale)
            for member in iter(tar.next, None):
                _expect_member(archive, member, listed, scale)
                (place / member.name).parent.mkdir(parents=True, exist_ok=True)
                packed = tar.extractfile(member)
                assert packed is not None  # a regular file
                with open(place / member.name, "xb") as target:
                    shutil.copyfileobj(packed, target)
    except _BROKEN as error:
        raise UserError(f"{archive}: cannot be unpacked ({error}); fetch it again") from error
    for name, digest in listed.items():
        if not (place / name).is_file() or sha256_file(place / name) != digest:
            raise UserError(f"{archive}: {name} is not what the archive's list says; fetch it again")
    return listed, left_out


def _read_list(archive: Path, tar: tarfile.TarFile, scale: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Hashes by name, and names of weights that were left out, as the archive's first member has them."""
    first = tar.next()
    source = tar.extractfile(first) if first is not None and first.name == LIST else None
    if source is None:
        raise UserError(f"{archive}: is no archive of results; give one that `tap publish bundle` wrote")
    content = json.load(source)
    if content["scale"] != scale:
        raise UserError(f"{archive}: is of scale {content['scale']}; unpack it with --scale {content['scale']}")
    listed = {str(name): str(digest) for name, digest in content["files"].items()}
    return listed, tuple(str(name) for name in content.get("left_out", ()))


def _expect_member(archive: Path, member: tarfile.TarInfo, listed: dict[str, str], scale: str) -> None:
    parts = PurePosixPath(member.name).parts
    inside = (
        parts[:2] in {("results", scale), ("results", PROFILES)} and ".." not in parts and parts[2:3] != (CHECKPOINTS,)
    )
    if not member.isreg() or not inside or member.name not in listed:
        raise UserError(f"{archive}: holds '{member.name}', which is no result of scale {scale}; nothing was unpacked")


def _size(root: Path, names: set[str]) -> int:
    return sum((root / name).stat().st_size for name in names)
