"""Learning rate as a pure function of the step (tab:training-config), computed by timm's schedulers.

The clock runs in optimizer steps. Warm-up rises linearly from zero; after it

* ``cosine`` and ``poly`` fall from the base rate to `final_lr` times it over the rest of the training,
* ``step`` multiplies by `gamma` from each milestone on, milestones being counted from the start of the training.
"""

from __future__ import annotations

from timm.scheduler import CosineLRScheduler, MultiStepLRScheduler, PolyLRScheduler
from timm.scheduler.scheduler import Scheduler
from torch.optim import Optimizer

from tap.config.schema import TrainConfig
from tap.engine.streams import in_steps, total_steps
from tap.errors import UserError


class Schedule:
    """Sets the learning rates of an optimizer for a given step. Holds nothing that a resumed run would have to restore.

    Args:
        optimizer: its groups' ``lr`` at this moment is the base rate; a group's ``lr_scale`` multiplies the result.
        train: lengths and shape.
        steps_per_epoch: converts epochs to steps.

    Raises:
        UserError: the warm-up fills the whole training, or the milestones are not increasing and inside it.
    """

    def __init__(self, optimizer: Optimizer, train: TrainConfig, steps_per_epoch: int) -> None:
        self._timm = _scheduler(optimizer, train, steps_per_epoch, base=optimizer.param_groups[0]["lr"])

    def set(self, step: int) -> float:
        """Puts the rates of the update number `step` (from 0) into the optimizer's groups.

        Returns:
            The rate of a group whose ``lr_scale`` is 1.
        """
        self._timm.step_update(step)
        first = self._timm.optimizer.param_groups[0]
        return first["lr"] / first.get("lr_scale", 1.0)


def _scheduler(optimizer: Optimizer, train: TrainConfig, steps_per_epoch: int, base: float) -> Scheduler:
    schedule = train.schedule
    total = total_steps(train, steps_per_epoch)
    warmup = in_steps(schedule.warmup, train.unit, steps_per_epoch)
    if warmup >= total:
        raise UserError(
            f"train.schedule.warmup: {schedule.warmup:g} {train.unit} ({warmup} steps) leave nothing of a training of "
            f"{train.length:g} {train.unit} ({total} steps); shorten the warm-up"
        )
    shared = {"warmup_t": warmup, "warmup_lr_init": 0.0, "t_in_epochs": False}
    if schedule.kind == "step":
        milestones = [in_steps(milestone, train.unit, steps_per_epoch) for milestone in schedule.milestones]
        if not milestones or milestones != sorted(set(milestones)) or milestones[-1] >= total:
            raise UserError(
                f"train.schedule.milestones: {list(schedule.milestones)} {train.unit} must be increasing and inside a "
                f"training of {train.length:g}"
            )
        # timm applies a milestone m at step m - 1; here the update number m is the first with the lower rate.
        first_lower = [milestone + 1 for milestone in milestones]
        return MultiStepLRScheduler(
            optimizer, decay_t=first_lower, decay_rate=schedule.gamma, warmup_prefix=False, **shared
        )
    falling = {"t_initial": total - warmup, "lr_min": schedule.final_lr * base, "warmup_prefix": True, **shared}
    if schedule.kind == "poly":
        return PolyLRScheduler(optimizer, power=schedule.power, **falling)
    return CosineLRScheduler(optimizer, **falling)
