"""Some images of a split, for what need not see all of them."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Subset

from tap.tasks.subsets import shuffled


def drawn(dataset: Any, count: int | None, *name: int | str) -> Any:
    """That many images of a data set, in its order; all of them if `count` is None or no less.

    Args:
        dataset: the images.
        count: how many.
        name: what names the draw; a larger `count` under the same name contains the smaller choice.
    """
    if count is None or count >= len(dataset):
        return dataset
    return Subset(dataset, sorted(shuffled(len(dataset), *name)[:count].tolist()))
