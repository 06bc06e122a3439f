"""Reads `params.yaml` over `workflow/scales/<scale>.yaml` and checks the result before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from tap.config.messages import explain
from tap.config.scale import Params, ScaleConfig
from tap.config.strict import Strict
from tap.errors import UserError
from tap.runs import SCALES

PARAMS_FILE = Path("params.yaml")
SCALES_FOLDER = Path("workflow/scales")
Model = TypeVar("Model", bound=Strict)


def load_params(root: Path | str = ".") -> Params:
    """Reads and checks what a person edits.

    Raises:
        UserError: `params.yaml` is missing, is no YAML, or has a wrong key, type or value.
    """
    tree = read_yaml(Path(root) / PARAMS_FILE)
    return _validated(Params, tree, lambda path: (str(PARAMS_FILE), path))


def load_scale(
    scale: str | None = None, overrides: Mapping[str, Any] | None = None, root: Path | str = "."
) -> ScaleConfig:
    """All settings of one scale: its file, `params.yaml`'s overrides for it, then `overrides`.

    Args:
        scale: ``smoke``, ``desk`` or ``paper``; None takes the one that `params.yaml` names.
        overrides: further values by dotted name (``{"tasks.cls.dense.length": 2}``) or as nested sections. A section is
            merged; a list or a single value replaces what was there.
        root: the project's folder.

    Returns:
        The settings, with only the tasks that `params.yaml` asks for.

    Raises:
        UserError: a file is missing or no YAML; a key is unknown, missing, or has a wrong type or value. The message
            names the file, the key's dotted name and what is allowed.
    """
    params = load_params(root)
    scale = params.scale if scale is None else scale
    if scale not in SCALES:
        raise UserError(f"scale: '{scale}' is not one of {', '.join(SCALES)}")
    file = SCALES_FOLDER / f"{scale}.yaml"
    tree = read_yaml(Path(root) / file)
    layers = [
        (f"{PARAMS_FILE}: overrides.{scale}.", params.overrides.get(scale, {})),  # type: ignore[call-overload]
        ("overrides: ", overrides or {}),
    ]
    touched: dict[str, str] = {}
    for origin, layer in layers:
        for path, value in _flat(layer, origin):
            _put(tree, path, value, origin)
            touched[path] = origin

    def locate(path: str) -> tuple[str, str]:
        """Names the file to mend: the last override at, below or above the path, else the scale's file."""
        for changed, origin in reversed(touched.items()):
            if f"{changed}.".startswith(f"{path}." if path else "") or f"{path}.".startswith(f"{changed}."):
                file_name, _, prefix = origin.partition(": ")
                return file_name, f"{prefix}{path}"
        return str(file), path

    config = _validated(ScaleConfig, tree, locate)
    if config.scale != scale:
        raise UserError(f"{file}: scale: is '{config.scale}', but the file's name says '{scale}'")
    return _with_tasks(config, params, file)


def read_yaml(path: Path) -> dict[str, Any]:
    """One YAML mapping.

    Raises:
        UserError: the file is missing, unreadable, no YAML, no mapping, or names a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); run from the project's folder") from error
    try:
        tree = yaml.load(text, Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise UserError(f"{path}: is not valid YAML{line}: {getattr(error, 'problem', error)}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UserError(f"{path}: must hold 'key: value' lines, not a {type(tree).__name__}")
    return _unshared(tree)


class _UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # ten times as fast
    """PyYAML lets a repeated key win silently; here it is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Builds a mapping after a look at its keys."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _unshared(tree: Any) -> Any:
    """A copy in which sections repeated by an alias (`*name`) are separate, so that an override reaches one of them."""
    if isinstance(tree, dict):
        return {key: _unshared(value) for key, value in tree.items()}
    return [_unshared(value) for value in tree] if isinstance(tree, list) else tree


def _validated(model: type[Model], tree: dict[str, Any], locate: Callable[[str], tuple[str, str]]) -> Model:
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, model, locate)) from error


def _flat(layer: Mapping[str, Any], origin: str, prefix: str = "") -> list[tuple[str, Any]]:
    """Nested sections and dotted names alike as (dotted name, value) pairs."""
    pairs: list[tuple[str, Any]] = []
    for key, value in layer.items():
        if not isinstance(key, str):
            raise UserError(f"{origin}{prefix}{key}: a name was expected, not {key!r}")
        path = f"{prefix}{key}"
        pairs += _flat(value, origin, f"{path}.") if isinstance(value, Mapping) else [(path, value)]
    return pairs


def _put(tree: dict[str, Any], path: str, value: Any, origin: str) -> None:
    *sections, last = path.split(".")
    node = tree
    for depth, section in enumerate(sections):
        child = node.setdefault(section, {})
        if child is None:
            child = node[section] = {}
        if not isinstance(child, dict):
            name = ".".join(sections[: depth + 1])
            raise UserError(f"{origin}{path}: '{name}' is a single value, not a section with further names")
        node = child
    node[last] = value


def _with_tasks(config: ScaleConfig, params: Params, file: Path) -> ScaleConfig:
    if params.tasks is None:
        return config
    missing = [task for task in params.tasks if task not in config.tasks]
    if missing or not params.tasks:
        raise UserError(
            f"{PARAMS_FILE}: tasks: {missing[0] if missing else 'the empty list'} is not in {file}, "
            f"which has {', '.join(config.tasks)}"
        )
    return config.only(params.tasks)
