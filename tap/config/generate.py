"""Files made from the models of `scale`: JSON schemas for editors, and every setting with its meaning on one page."""

from __future__ import annotations

import itertools
import json
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tap.config.scale import Params, ScaleConfig
from tap.provenance.files import atomic_write

SCHEMAS_FOLDER = Path("workflow/schemas")
_COLUMN = 58
_HEAD = """\
# The defaults of params.yaml, and below them every setting of a scale file, by the dotted name under which
# `overrides` replaces it. Generated from tap/config/scale.py by `tap config generate`; do not edit.
"""
_REFERENCE = """
# Settings of workflow/scales/<scale>.yaml: type and range; default, or `required` where the file must give a value;
# meaning. `tap config show` prints the values in use.
"""


def generated_files() -> dict[Path, str]:
    """Text of every generated file by its path, relative to the project."""
    models: dict[str, type[BaseModel]] = {"params": Params, "scale": ScaleConfig}
    files = {
        SCHEMAS_FOLDER / f"{name}.schema.json": json.dumps(_schema(model), indent=1) + "\n"
        for name, model in models.items()
    }
    files[SCHEMAS_FOLDER / "params.default.yaml"] = _default_page()
    return files


def generate(root: Path | str = ".") -> list[Path]:
    """Writes every generated file, and says which.

    Raises:
        UserError: a file cannot be written.
    """
    files = generated_files()
    for path, text in files.items():
        atomic_write(Path(root) / path, text)
    return list(files)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _default_page() -> str:
    lines = [_HEAD, ""]
    for name, field in Params.model_fields.items():
        lines += [f"# {field.description}; {_type(field)}", f"{name}: {_inline(field.get_default())}", ""]
    lines += [_REFERENCE, "#"]
    lines += [f"# {name:<{_COLUMN}} {text}".rstrip() for name, text in _settings(ScaleConfig, "", {})]
    return "\n".join(line.strip("\n") for line in lines) + "\n"


def _settings(model: type[BaseModel], prefix: str, seen: dict[type[BaseModel], str]) -> Iterator[tuple[str, str]]:
    """Dotted name and description of every setting; a section that occurs again refers to its first place."""
    seen[model] = prefix
    for name, field in model.model_fields.items():
        path = prefix + name
        section = _section(field.annotation)
        if section is None:
            yield path, "; ".join(part for part in (_type(field), _default(field), field.description or "") if part)
            continue
        if any(get_origin(part) is dict for part in _parts(field.annotation)):
            path = f"{path}.<task>"
        about = field.description or " ".join((section.__doc__ or "").split())
        yield f"{path}.*", f"{about}; as {seen[section]}*" if section in seen else about
        if section not in seen:
            yield from _settings(section, f"{path}.", seen)


def _section(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, alone, by name, or unless it is null."""
    candidates = [each for part in _parts(annotation) for each in (get_args(part) or (part,))]
    return next((part for part in candidates if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _inline(value: Any) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("...\n").strip()


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else f"default {_inline(field.get_default())}"


def _type(field: FieldInfo) -> str:
    kind = _kind(field.annotation)
    kind, null, _ = kind.partition(" | null")
    return kind + _range(field.metadata) + null


def _kind(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin in (Union, types.UnionType):
        return " | ".join("null" if part is type(None) else _kind(part) for part in parts)
    if origin is tuple:
        return f"list of {_kind(parts[0])}" if parts[-1] is Ellipsis else f"list of {len(parts)} {_kind(parts[0])}s"
    if origin is dict:
        return f"section by {_kind(parts[0])}"
    if origin is Annotated:
        return _kind(parts[0]) + _range(itertools.chain.from_iterable(getattr(part, "metadata", ()) for part in parts))
    return _NAMES[annotation]


_NAMES = {str: "text", int: "whole number", float: "number", bool: "true | false"}


def _range(metadata: Iterable[Any]) -> str:
    bounds = []
    for bound in metadata:
        for kind, sign in ((Ge, ">="), (Gt, ">"), (Le, "<="), (Lt, "<")):
            if isinstance(bound, kind):
                bounds.append(f"{sign} {getattr(bound, kind.__name__.lower()):g}")
        if isinstance(bound, MinLen):
            bounds.append(f"at least {bound.min_length}")
    return f" ({', '.join(bounds)})" if bounds else ""
