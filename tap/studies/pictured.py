"""One validation image under several methods: what each keeps and says of it, and where removed patches point.

No torch is needed, since figures read it; `tap.studies.picturing` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tap.tasks.view import View

_TRUTH, _POINTERS = "truth", "pointers"


@dataclass(frozen=True)
class Pointers:
    """Where the removed patches of an image point, as one pass has stored it (Eq. 2, Alg. S3).

    Attributes:
        layers: blocks that removed patches, ascending `(M,)`.
        scales: the recovery scale alpha of each `(M,)`.
        removed_at: block before whose attention each patch is removed `(N,)`; 0 for the retained ones.
        pointer: original index of each patch's stand-in `(N,)`; its own for the retained ones.
        offset: norm of each patch's stored offset `(N,)`; 0 for the retained ones.
    """

    layers: NDArray[np.int64]
    scales: NDArray[np.float64]
    removed_at: NDArray[np.int64]
    pointer: NDArray[np.int64]
    offset: NDArray[np.float64]

    def chain_of(self, patch: int) -> list[int]:
        """A patch, its stand-in, the stand-in of that, and so on to the one that is retained."""
        found = [patch]
        while self.removed_at[found[-1]]:
            found.append(int(self.pointer[found[-1]]))
        return found

    @property
    def longest_chain(self) -> list[int]:
        """The chain of most links; of equal ones that of the first patch. Empty if nothing was removed."""
        chains = [self.chain_of(int(patch)) for patch in np.flatnonzero(self.removed_at)]
        return max(chains, key=len, default=[])


@dataclass(frozen=True)
class OfMethod:
    """An image under one method.

    Attributes:
        method: which.
        run: id of the run.
        kept: which patches reach the last block `(N_y, N_x)`.
        says: its prediction; None where the task shows none.
    """

    method: str
    run: str
    kept: NDArray[np.bool_]
    says: View | None


@dataclass(frozen=True)
class Pictured:
    """An image under several methods.

    Attributes:
        number: of the image within its data set.
        pixels: `(H, W, 3)` uint8, as the encoder sees it, without normalisation and padding.
        patch: height and width of a patch in pixels.
        truth: its label; None where the task shows none.
        methods: in the order of the figure.
        pointers: of TAP-J's pass; None where nothing is restored.
    """

    number: int
    pixels: NDArray[np.uint8]
    patch: tuple[int, int]
    truth: View | None
    methods: tuple[OfMethod, ...]
    pointers: Pointers | None

    def arrays(self) -> dict[str, NDArray]:
        """Everything as arrays by name, for one file."""
        found: dict[str, Any] = {
            "number": self.number,
            "pixels": self.pixels,
            "patch": self.patch,
            "methods": np.array([one.method for one in self.methods], dtype=str),
            **_of_view(_TRUTH, self.truth),
        }
        for one in self.methods:
            found |= {f"{one.method}/run": one.run, f"{one.method}/kept": one.kept, **_of_view(one.method, one.says)}
        if self.pointers is not None:
            found |= {f"{_POINTERS}/{name}": values for name, values in vars(self.pointers).items()}
        return {name: np.asarray(values) for name, values in found.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray]) -> Pictured:
        """What `arrays` has written.

        Raises:
            KeyError: an array is missing.
        """
        methods = [
            OfMethod(name, str(arrays[f"{name}/run"]), arrays[f"{name}/kept"], _view_of(name, arrays))
            for name in map(str, arrays["methods"])
        ]
        start = f"{_POINTERS}/"
        stored = {name.removeprefix(start): values for name, values in arrays.items() if name.startswith(start)}
        height, width = map(int, arrays["patch"])
        return cls(
            int(arrays["number"]),
            arrays["pixels"],
            (height, width),
            _view_of(_TRUTH, arrays),
            tuple(methods),
            Pointers(**stored) if stored else None,
        )


def _of_view(name: str, view: View | None) -> dict[str, Any]:
    return {} if view is None else {f"{name}/{part}": values for part, values in vars(view).items()}


def _view_of(name: str, arrays: Mapping[str, NDArray]) -> View | None:
    if f"{name}/picture" not in arrays:
        return None
    picture, boxes, colours = (arrays[f"{name}/{part}"] for part in ("picture", "boxes", "colours"))
    return View(picture, boxes, colours, str(arrays[f"{name}/words"]))
