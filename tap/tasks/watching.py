"""Listens to the passes of an encoder while a task evaluates: what each pass kept, whoever called it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from tap.encoder.trace import Trace


@contextmanager
def watched(encoder: nn.Module) -> Iterator[list[Trace]]:
    """Collects the trace of every pass that `encoder` makes while the context lasts; nothing else is changed.

    A head that slides windows makes several passes for one prediction: traces come in the order of the passes.
    """
    traces: list[Trace] = []

    def ask(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given[:2], {**named, "return_trace": True}

    def keep(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        traces.append(output.trace)

    hooks = [encoder.register_forward_pre_hook(ask, with_kwargs=True), encoder.register_forward_hook(keep)]
    try:
        yield traces
    finally:
        for hook in hooks:
            hook.remove()
