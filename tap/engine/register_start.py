"""Where the register of a run starts: a normal draw, which the model has, or the pre-trained class token.

The token is always read from the file of the pre-training, which is the same for all tasks. So detection, whose trunk
has no class token, starts as the others do, and where a run stands can be told without its training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tap.config.schema import JobSpec
from tap.encoder.weights import class_token_in
from tap.engine.run_weights import base_of
from tap.plan.starts import starts_from_class_token


def start_register(spec: JobSpec, model: Any) -> Path | None:
    """Lets the register of a model begin where the settings of its run say.

    Returns:
        The file read; None where the register keeps its draw, or there is none.

    Raises:
        UserError: the pre-training's file is not there, or holds no class token of the model's width.
    """
    if not starts_from_class_token(spec):
        return None
    path = base_of(spec)
    sha256 = None if spec.pretrain.weights is None else spec.pretrain.sha256
    model.encoder.reducer.controller.start_from(class_token_in(path, sha256))
    return path
