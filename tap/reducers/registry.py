"""Finds a method by its name: one file per method in this package, each with one registered class."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TypeVar

import tap.reducers
from tap.errors import UserError
from tap.reducers.base import Reducer

_REGISTRY: dict[str, type[Reducer]] = {}
Class = TypeVar("Class", bound=type[Reducer])


def register(cls: Class) -> Class:
    """Class decorator: makes a reducer known under its `name`."""
    if cls.name in _REGISTRY:
        raise ValueError(f"two reducers are called '{cls.name}'")
    _REGISTRY[cls.name] = cls
    return cls


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
