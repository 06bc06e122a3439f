"""Settings of single methods: a file with one model for each method that has any, whose defaults are the public recipe.

The folder is the list: the file has the method's name, so that a method with settings of its own is one file here and
one in `tap/reducers`. Nothing here imports torch.

Lengths of phases are shares of the training, so that they fit every budget (public recipes count epochs of trainings of
30 to 300). Learning rates are factors of the task's own rate.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, Final

from pydantic import create_model

from tap.config.strict import Options, Strict


def _model_in(method: str) -> type[Options]:
    """The one model of a method's file.

    Raises:
        ValueError: the file has none, or several.
    """
    module = importlib.import_module(f"{__name__}.{method}")
    own = [part for part in vars(module).values() if isinstance(part, type) and part.__module__ == module.__name__]
    if len(own) != 1 or not issubclass(own[0], Options):
        raise ValueError(f"tap/config/options/{method}.py: must hold one class, the settings of '{method}'")
    return own[0]


OPTIONS: Final = {found.name: _model_in(found.name) for found in pkgutil.iter_modules(__path__)}
"""The options of each method that has any, by name."""


class _OfMethods(Strict):
    """Settings of single methods; what is not named keeps the public recipe."""

    def of(self, method: str) -> Options | None:
        """The options of a method, the public recipe where nothing is set; None for a method without any."""
        if method not in OPTIONS:
            return None
        return getattr(self, method) or OPTIONS[method]()

    def only(self, method: str) -> MethodOptions | None:
        """The resolved options of one method alone: what a job of it reads. None for a method without any."""
        options = self.of(method)
        return None if options is None else MethodOptions.model_validate({method: options})


if TYPE_CHECKING:

    class MethodOptions(_OfMethods):
        """One optional section for each method of `OPTIONS`."""

        def __init__(self, **options: Any) -> None: ...

else:
    MethodOptions = create_model(
        "MethodOptions",
        __base__=_OfMethods,
        __module__=__name__,
        __doc__=_OfMethods.__doc__,
        **{name: (model | None, None) for name, model in OPTIONS.items()},
    )
