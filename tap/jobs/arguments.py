"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ScaleOption = Annotated[
    str | None, typer.Option("--scale", help="smoke, desk or paper; the one that params.yaml names if not given")
]
RunArgument = Annotated[str, typer.Argument(help="run, such as cls/tap/r0.50/main/s0", metavar="RUN")]
TaskArgument = Annotated[str, typer.Argument(help="name of a task, such as cls", metavar="TASK")]
SpecOption = Annotated[
    str | None,
    typer.Option("--spec", help="settings that the workflow has planned the job with, as JSON", metavar="JSON"),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="folder to write to; that of the scale if not given")]
