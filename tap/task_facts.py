"""What each task is, as data: what its pipeline restores and reports, and where its code is.

A task is a package under `tap/tasks` and an entry here. Everything that depends on what a task is (whether its head
reads a complete grid, which scores it has and which way they are better, what it is probed for) asks the entry, not the
task's name. The entries are constants of their own: code that computes takes that of its task, so that another one
changes nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal


@dataclass(frozen=True)
class Metric:
    """One number that a model is judged by.

    Attributes:
        name: how `metrics.json` and the tidy tables call it.
        title: how a table or figure calls it.
        unit: of its values; differences of percentages are percentage points.
        higher_is_better: which way is better.
        pooled: how it follows from single images, where it is a mean over all their items (pixels, say) or the root of
            one: these are summed in the array `<name>_sums` `(n, 2)`, each image's sum and number of items, which
            intervals are resampled from. Empty where `tap.paper.statistics` says how, or it does not follow from sums.
    """

    name: str
    title: str
    unit: str = "%"
    higher_is_better: bool = True
    pooled: Literal["", "mean", "root"] = ""

    def gain(self, value: Any, reference: Any) -> Any:
        """How much better `value` is than `reference`, in the metric's unit; below 0 where it is worse.

        Args:
            value, reference: numbers, arrays, or anything else that can be subtracted.
        """
        return value - reference if self.higher_is_better else reference - value


@dataclass(frozen=True)
class Dataset:
    """A data set that a task can be measured on.

    Attributes:
        name: how the settings call it.
        preparing: module whose `prepare` fetches it; empty where a person brings it.
        checking: module whose `check` looks at a person's own; empty where it is verified when it is prepared.
    """

    name: str
    preparing: str = ""
    checking: str = ""


@dataclass(frozen=True)
class TaskFacts:
    """What a task is.

    Attributes:
        name: how runs, settings and files call it: lower-case letters.
        title: how a figure calls it.
        pipeline: its class, as `module:class`; imported by `tap.tasks.registry` when a job needs it.
        metrics: what it is judged by; the first one decides where one number has to.
        datasets: what it can be measured on.
        dense: whether its head reads a feature at every position, so that removed ones have to be given back.
        background: whether the target of a patch may be no object at all, one class more than the head has.
        libraries: distributions beside the common ones whose version decides its results.
        drawing: module whose `draw` makes the picture of a run; empty where there is none.
        views: module that shows an image (`pixels`), what its label (`truth`) and a model (`predicted`) say of it, and
            knows how much there is to see (`interest`); empty where there is none.
    """

    name: str
    title: str
    pipeline: str
    metrics: tuple[Metric, ...]
    datasets: tuple[Dataset, ...]
    dense: bool = False
    background: bool = False
    libraries: tuple[str, ...] = ()
    drawing: str = ""
    views: str = ""

    @property
    def score(self) -> Metric:
        """The metric that decides where one number has to."""
        return self.metrics[0]

    def metric(self, name: str) -> Metric:
        """One of its metrics.

        Raises:
            KeyError: it has no metric of that name.
        """
        return {metric.name: metric for metric in self.metrics}[name]

    @property
    def module(self) -> str:
        """The module of the pipeline."""
        return self.pipeline.partition(":")[0]

    @property
    def floors(self) -> bool:
        """Whether it is asked what a random encoder scores: dense heads learn much without a trained one."""
        return self.dense

    @property
    def probes(self) -> tuple[str, ...]:
        """Kinds of its controlled probes: where nothing is restored, there is no recovery probe."""
        return ("layers", "recovery") if self.dense else ("layers",)


MICROSCOPY: Final = Dataset("microscopy", preparing="tap.tasks.microscopy.tiles")

CLS: Final = TaskFacts(
    "cls",
    "Classification",
    "tap.tasks.classification.task:Classification",
    (Metric("top1", "top-1"),),
    (
        Dataset("fashion_mnist", preparing="tap.tasks.classification.fashion"),
        Dataset("imagenet", checking="tap.tasks.classification.check"),
    ),
    views="tap.tasks.classification.views",
)

SEG: Final = TaskFacts(
    "seg",
    "Segmentation",
    "tap.tasks.segmentation.task:Segmentation",
    (Metric("miou", "mIoU"),),
    (MICROSCOPY, Dataset("ade20k", checking="tap.tasks.segmentation.check")),
    dense=True,
    libraries=("onedl-mmsegmentation",),
    drawing="tap.tasks.segmentation.picture",
    views="tap.tasks.segmentation.views",
)

DET: Final = TaskFacts(
    "det",
    "Detection",
    "tap.tasks.detection.task:Detection",
    (Metric("box_ap", "box AP"), Metric("mask_ap", "mask AP")),
    (
        Dataset("fashion_scenes", preparing="tap.tasks.fashion_scenes.scenes"),
        MICROSCOPY,
        Dataset("coco", checking="tap.tasks.detection.check"),
    ),
    dense=True,
    background=True,
    libraries=("onedl-mmdetection", "pycocotools"),
    drawing="tap.tasks.detection.picture",
    views="tap.tasks.detection.views",
)

TASKS: Final[Mapping[str, TaskFacts]] = {facts.name: facts for facts in (CLS, SEG, DET)}
"""All tasks by name, in the order of the tables."""

DENSE_TASKS: Final = tuple(name for name in TASKS if TASKS[name].dense)
"""Those whose removed positions have to be given back."""

PLACE: Final = "place"
"""Array of per-image values that says what each image is a view of, where several are views of one place."""

METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for name in TASKS for metric in TASKS[name].metrics}
"""All metrics by name."""
