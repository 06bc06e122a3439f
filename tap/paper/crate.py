"""A finished scale as an RO-Crate: workflow, data cards, results, tables, and every job's record as provenance.

Weights stay outside unless asked for. What a job read or made and the crate does not hold is described by its hash, so
that the chain from a table back to the data is whole either way.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from tap.config.load import load_scale
from tap.errors import UserError
from tap.provenance.files import sha256_file, writing
from tap.provenance.finding import Kind
from tap.provenance.root_hash import root_hash
from tap.provenance.verify import Staleness, Verification, require, verify

METADATA = "ro-crate-metadata.json"
SPECIFICATION = "1.2"
"""Version of RO-Crate that a crate conforms to."""
WEIGHTS = ".safetensors"
_CODE = ("tap", "workflow")
_ALONE = ("params.yaml", "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "CITATION.cff")
_LICENCE = "https://spdx.org/licenses/Apache-2.0"
_TYPES = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".md": "text/markdown",
    ".tex": "application/x-tex",
    ".html": "text/html",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".svg": "image/svg+xml",
    ".npz": "application/x-npz",
    ".yaml": "application/yaml",
}


def write_crate(
    scale: str,
    staleness: Staleness,
    out: Path | str,
    root: Path | str = ".",
    weights: bool = False,
    allowed: Collection[Kind] = (),
) -> Path:
    """Verifies the results of a scale and writes their crate into a folder.

    Data and, unless they are asked for, weights need not be there: their hashes are.

    Args:
        scale: whose results.
        staleness: why a record's result is not what the workflow would make today; None if it is.
        out: the folder; an older crate there is replaced, anything else is left alone.
        root: the project's folder.
        weights: whether trained weights are part of it.
        allowed: kinds of findings to let pass; what is edited or of unknown origin is refused in any case.

    Returns:
        The folder.

    Raises:
        UserError: a result is not what its record says, the scale has no tables yet, or the folder holds something else
            or cannot be written.
    """
    root, out = Path(root), Path(out)
    results = root / "results" / scale
    if not list((results / "tables").glob("*.csv")):
        raise UserError(f"{results}/tables: there is no table yet; `make reproduce SCALE={scale}` makes them")
    if out.exists() and not (out / METADATA).is_file() and (out.is_file() or any(out.iterdir())):
        raise UserError(f"{out}: holds something else than a crate; name an empty or a new folder")
    found = verify(load_scale(scale, root=root), staleness, root=root)
    _require(found, scale, weights, {*allowed} - {Kind.EDITED, Kind.UNKNOWN})
    files = sorted(_files(results, weights))
    crate = ROCrate(version=SPECIFICATION)
    _describe(crate, scale, root, root_hash(found.ledger))
    workflow = crate.add_workflow(root / "workflow" / "Snakefile", "workflow/Snakefile", main=True, lang="snakemake")
    workflow["name"] = "From images to tables"
    snakefile = root / "workflow" / "Snakefile"
    workflow["sha256"], workflow["contentSize"] = sha256_file(snakefile), str(snakefile.stat().st_size)
    for folder in _CODE:
        crate.add_dataset(dest_path=f"{folder}/", properties={"name": f"{folder}: code of the workflow"})
    for path in [*(root / name for name in _ALONE if (root / name).is_file()), *_cards(root), *files]:
        name = path.relative_to(root).as_posix()
        kind = {"encodingFormat": _TYPES[path.suffix]} if path.suffix in _TYPES else {}
        known = {**kind, "sha256": found.files.get(name) or sha256_file(path)}
        crate.add_file(path, name, properties=known, record_size=True)
    ended = [_add_action(crate, workflow, path, root) for path in files if path.suffix == ".json"]
    crate.root_dataset["datePublished"] = max((time for time in ended if time), default="1970-01-01T00:00:00+00:00")
    return _write(crate, root, out)


def _require(found: Verification, scale: str, weights: bool, allowed: Collection[Kind]) -> None:
    """Refuses what is wrong with a file that the crate is to hold."""
    own = f"results/{scale}/"
    findings = [
        item
        for item in found.findings
        if item.kind != Kind.MISSING or (item.path.startswith(own) and (weights or not item.path.endswith(WEIGHTS)))
    ]
    require(replace(found, findings=tuple(findings)), allowed)


def _describe(crate: ROCrate, scale: str, root: Path, records: str) -> None:
    """Name, licence and authors, from CITATION.cff, and the hash over all records."""
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    crate.name = f"{citation['title']} ({scale} scale)"
    crate.description = (
        f"Measured results of scale {scale}, the workflow that made them, and a record of every job. "
        "Numbers of the paper stand beside measured ones and never in their place."
    )
    licence = {"@type": "CreativeWork", "name": "Apache-2.0"}
    crate.license = crate.add(ContextEntity(crate, _LICENCE, properties=licence))
    crate.root_dataset["author"] = [_author(crate, item) for item in citation["authors"]]
    paper = citation["preferred-citation"]
    properties = {"@type": "ScholarlyArticle", "name": paper["title"], "datePublished": str(paper["year"])}
    article = crate.add(ContextEntity(crate, "#paper", properties=properties))
    article["author"] = [_author(crate, item) for item in paper["authors"]]
    crate.root_dataset["citation"] = article
    identifier = {
        "@type": "PropertyValue",
        "name": "root hash of the scale's records (docs/evidence.md)",
        "value": records,
    }
    crate.root_dataset["identifier"] = crate.add(ContextEntity(crate, "#root-hash", properties=identifier))


def _author(crate: ROCrate, item: dict[str, str]) -> ContextEntity:
    name = item.get("name") or f"{item['given-names']} {item['family-names']}"
    kind = "Organization" if "name" in item else "Person"
    identifier = f"#{name.lower().replace(' ', '-')}"
    return crate.get(identifier) or crate.add(
        ContextEntity(crate, identifier, properties={"@type": kind, "name": name})
    )


def _add_action(crate: ROCrate, workflow: Any, path: Path, root: Path) -> str | None:
    """A job as an action from its inputs to its outputs.

    Returns:
        When it ended; None for a file that is no record.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or not {"inputs", "outputs", "fingerprint"} <= record.keys():
        return None
    name = path.relative_to(root).as_posix()
    device = record.get("device", "an unnamed device")
    properties = {
        "@type": "CreateAction",
        "name": f"{record.get('job', path.stem)} {record.get('run', '')}".strip(),
        "startTime": record.get("started"),
        "endTime": record.get("ended"),
        "description": f"Code {record['fingerprint'][:12]} on {device}; record {name}",
    }
    action = crate.add_action(
        workflow,
        identifier=f"#{name}",
        object=[_file(crate, file, facts) for file, facts in record["inputs"].items()],
        result=[_file(crate, file, facts) for file, facts in record["outputs"].items()],
        properties={key: value for key, value in properties.items() if value},
    )
    crate.root_dataset.append_to("mentions", action)
    return record.get("ended")


def _file(crate: ROCrate, name: str, facts: dict[str, Any]) -> Any:
    """A file of a record: the crate's own, with its hash, or a description of one that it does not hold."""
    entity = crate.get(name)
    if entity is None:
        entity = crate.get(f"#{name}") or crate.add(
            ContextEntity(crate, f"#{name}", properties={"@type": "CreativeWork", "name": name})
        )
    if "sha256" in facts:
        entity["sha256"] = facts["sha256"]
        entity["contentSize"] = str(facts["bytes"])
    return entity


def _files(results: Path, weights: bool) -> Iterator[Path]:
    """Results of a scale that belong into a crate."""
    for path in results.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(results).parts)
        if path.is_file() and not hidden and (weights or path.suffix != WEIGHTS):
            yield path


def _cards(root: Path) -> list[Path]:
    """What describes the data: the page on all of them, and the cards and manifests of prepared ones."""
    found = [root / "docs" / "data.md", *(root / "data").glob("*/README.md"), *(root / "data").glob("*/manifest.json")]
    return sorted(path for path in found if path.is_file())


def _write(crate: ROCrate, root: Path, out: Path) -> Path:
    """Writes beside the target first, so that a kill leaves the older crate."""
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
            fresh = Path(place) / "crate"
            crate.write(fresh)
            for folder in _CODE:
                ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(root / folder, fresh / folder, dirs_exist_ok=True, ignore=ignore)
            if out.exists():
                out.rename(Path(place) / "older")
            fresh.rename(out)
    return out
