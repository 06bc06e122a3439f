"""What the RO-Crate 1.1 and 1.2 specifications say that a crate MUST be, without a network."""

import hashlib
import json
import re
from pathlib import Path
from urllib.parse import unquote

METADATA = "ro-crate-metadata.json"
VERSIONS = re.compile(r"https://w3id\.org/ro/crate/1\.[12]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}.*)?")
_OUTSIDE = re.compile(r"[a-z]+://|mailto:")


def faults_of_crate(folder: Path) -> list[str]:
    """Everything in which a folder is no crate, one line each."""
    tree = json.loads((folder / METADATA).read_text(encoding="utf-8"))
    contexts = tree.get("@context", [])
    contexts = contexts if isinstance(contexts, list) else [contexts]
    faults = [] if any(VERSIONS.match(str(item)) for item in contexts) else ["context: not that of RO-Crate"]
    items = tree.get("@graph", [])
    known = {item.get("@id"): item for item in items}
    if len(known) != len(items):
        faults.append("graph: two entities of one @id")
    if "./" not in known:
        return [*faults, "graph: no root data entity ./"]
    for item in items:
        faults += _entity(item, known)
    return [*faults, *_descriptor(known), *_root(known["./"]), *_data(folder, known)]


def _types(item: dict) -> list[str]:
    kinds = item.get("@type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def _references(value) -> list:
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]


def _entity(item: dict, known: dict) -> list[str]:
    """Every entity has an @id and a type; other entities are named and not nested, and are there."""
    name, faults = str(item.get("@id")), []
    if not item.get("@id") or not _types(item):
        faults.append(f"{name}: lacks @id or @type")
    if ".." in Path(name).parts or " " in name or "\\" in name:
        faults.append(f"{name}: no encoded relative path or URI")
    for key, value in item.items():
        for part in _references(value):
            if set(part) not in ({"@id"}, {"@value"}, {"@value", "@type"}):
                faults.append(f"{name}: {key} is nested")
            elif "@id" in part and part["@id"] not in known and not _OUTSIDE.match(part["@id"]):
                faults.append(f"{name}: {key} names {part['@id']}, which is not there")
    return faults


def _descriptor(known: dict) -> list[str]:
    descriptor = known.get(METADATA, {})
    faults = [] if "CreativeWork" in _types(descriptor) else [f"{METADATA}: no CreativeWork"]
    if descriptor.get("about") != {"@id": "./"}:
        faults.append(f"{METADATA}: not about ./")
    if not any(VERSIONS.fullmatch(part.get("@id", "")) for part in _references(descriptor.get("conformsTo"))):
        faults.append(f"{METADATA}: conforms to no version of RO-Crate")
    return faults


def _root(root: dict) -> list[str]:
    faults = [] if "Dataset" in _types(root) else ["./: no Dataset"]
    faults += [f"./: lacks {key}" for key in ("name", "description", "datePublished", "license") if not root.get(key)]
    if not _DATE.fullmatch(str(root.get("datePublished", ""))):
        faults.append("./: datePublished is no ISO 8601 date")
    return faults


def _data(folder: Path, known: dict) -> list[str]:
    """Files and folders are there, are what is said of them, and hang together from the root."""
    faults, reached, waiting = [], set(), ["./"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [part["@id"] for part in _references(known.get(name, {}).get("hasPart", []))]
    for name, item in known.items():
        kinds = {"File", "Dataset"} & set(_types(item))
        if not kinds or _OUTSIDE.match(name):
            continue
        path = folder / unquote(name)
        if not (path.is_file() if "File" in kinds else path.is_dir()):
            faults.append(f"{name}: is not there")
            continue
        if name not in reached:
            faults.append(f"{name}: part of nothing")
        if "File" in kinds:
            content = path.read_bytes()
            if item.get("sha256") != hashlib.sha256(content).hexdigest():
                faults.append(f"{name}: another hash")
            if str(item.get("contentSize")) != str(len(content)):
                faults.append(f"{name}: another size")
    return faults
