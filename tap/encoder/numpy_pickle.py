"""Reads a pickle of numpy arrays, the format of detectron2's model zoo, without running code from it."""

from __future__ import annotations

import _codecs
import io
import pickle
from typing import Any, Final

import numpy as np
from numpy._core import multiarray

_ALLOWED: Final[dict[tuple[str, str], Any]] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): multiarray._reconstruct,  # before numpy 2
    ("numpy._core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("_codecs", "encode"): _codecs.encode,  # how newer protocols write what older ones hold as bytes
}
"""All that rebuilding an array needs."""


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuses every name but those that make an array."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"holds {module}.{name}")
        return _ALLOWED[module, name]


def read_arrays(content: bytes) -> Any:
    """What a pickle holds, if that is made of plain Python values and numpy arrays only.

    Raises:
        pickle.UnpicklingError: it names anything else.
    """
    return _Arrays(io.BytesIO(content), encoding="latin1").load()
