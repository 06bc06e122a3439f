"""Finds a method by its name: one file per method in this package, each with one registered class."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeVar

import tap.reducers
from tap.errors import UserError
from tap.method_facts import Method
from tap.reducers.base import Reducer

_REGISTRY: dict[str, type[Reducer]] = {}
Class = TypeVar("Class", bound=type[Reducer])


def register(method: Method) -> Callable[[Class], Class]:
    """Class decorator: makes a reducer known by the name of its file.

    Args:
        method: what its jobs act upon; the class has it as `method`.

    Raises:
        ValueError: a file with two reducers, or a readout that the class does not have.
    """

    def registered(cls: Class) -> Class:
        cls.name, cls.method = cls.__module__.rpartition(".")[2], method
        if cls.name in _REGISTRY:
            raise ValueError(f"two reducers are called '{cls.name}'")
        if (cls.read is not Reducer.read) != (method.readout == "own"):
            raise ValueError(
                f"'{cls.name}' says readout={method.readout!r}; a `read` of the class is 'own', no other is"
            )
        _REGISTRY[cls.name] = cls
        return cls

    return registered


def available() -> tuple[str, ...]:
    """Names of all methods, sorted."""
    for module in pkgutil.iter_modules(tap.reducers.__path__):
        importlib.import_module(f"tap.reducers.{module.name}")
    return tuple(sorted(_REGISTRY))


def get(name: str) -> type[Reducer]:
    """The class of a method.

    Raises:
        UserError: no method has this name.
    """
    names = available()
    if name not in names:
        raise UserError(f"method: '{name}' is not known; choose one of {', '.join(names)}")
    return _REGISTRY[name]
