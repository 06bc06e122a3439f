"""What tells a model how far its training is."""

from __future__ import annotations

from typing import Any

from mmengine.hooks import Hook
from mmengine.registry import HOOKS

from tap.reducers.base import Reducer


@HOOKS.register_module()
class TapProgressHook(Hook):
    """Sets the progress of every method in the model before each iteration, also after a resume."""

    def before_train_iter(self, runner: Any, batch_idx: int, data_batch: Any = None) -> None:
        """Progress is the share of all iterations that are done."""
        for module in runner.model.modules():
            if isinstance(module, Reducer):
                module.set_progress(runner.iter / runner.max_iters)
