"""Data files of the paper (printed tables, statements, claims): YAML of a declared form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from tap.errors import UserError


def read_yaml(path: Path, form: Any) -> Any:
    """Reads a file.

    Args:
        path: the file.
        form: a type that pydantic can check.

    Raises:
        UserError: the file is no YAML, or not of the form; the message names it and the first place that is wrong.
    """
    try:
        return TypeAdapter(form).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: no valid YAML; {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise UserError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}") from error
