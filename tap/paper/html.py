"""What pages that hold everything themselves share: data and pictures inside, and nothing that could end them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def templates_in(folder: Path) -> Environment:
    """Templates of a folder; text that is put into them is escaped, and what is not given is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def embedded(data: Any) -> Markup:
    """JSON that cannot end the element that holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def data_uri(content: bytes, kind: str) -> str:
    """A picture as an address; `kind` is `png` or `svg+xml`."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
