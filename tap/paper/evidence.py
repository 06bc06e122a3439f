"""What has been measured at a scale: what every table, figure and predicate of a claim is a function of.

Runs are named by selectors, as `tap.paper.measured` says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from tap.config.load import load_scale
from tap.config.methods import DENSE, MAIN, RANDOM_ENCODER
from tap.config.scale import ScaleConfig
from tap.controls.policies import FULL
from tap.errors import UserError
from tap.paper.control_results import ControlResults, read_controls
from tap.paper.measured import Measured, Value
from tap.paper.names import quantity, title_of
from tap.paper.probe_results import ProbeResults, read_probe
from tap.paper.profiles import FOLDER, Profile, read_profile
from tap.paper.reported import Printed, load_reported
from tap.paper.scores import read_arrays
from tap.paper.statements import stated
from tap.paper.tidy import PRIMARY_METRIC, gather, read_tidy
from tap.plan.profiles import Shapes, profile_in_use, shapes_of
from tap.plan.results import floor_runs, tidy_paths
from tap.plan.shown_runs import pictured_path
from tap.studies.pictured import Pictured


@dataclass
class Evidence:
    """The results of a scale.

    Attributes:
        scale: whose results.
        root: the project's folder.
        compare: refuse a score that its per-image values do not give, before an interval of theirs stands beside it.
    """

    scale: str
    root: Path = Path(".")
    compare: bool = True
    _measured: dict[str, Measured] = field(default_factory=dict, repr=False)
    _probes: dict[tuple[str, str], ProbeResults | None] = field(default_factory=dict, repr=False)
    _controls: dict[tuple[str, str], ControlResults | None] = field(default_factory=dict, repr=False)
    _profiles: dict[tuple[str, str], Profile | None] = field(default_factory=dict, repr=False)
    _above_floors: dict[str, bool | None] = field(default_factory=dict, repr=False)

    @cached_property
    def settings(self) -> ScaleConfig:
        """Settings of the scale."""
        return load_scale(self.scale, root=self.root)

    def measured(self, task: str) -> Measured:
        """All runs of a task, from its tidy tables, as far as these are made."""
        if task not in self._measured:
            paths = [self.root / path for path in tidy_paths(self.scale, task)]
            frames = [read_tidy(path) for path in paths if path.is_file()]
            frame = pd.concat(frames, ignore_index=True) if frames else gather([])
            self._measured[task] = Measured(frame, self.settings.main_rate, self.root, compare=self.compare)
        return self._measured[task]

    def below_floor(self, task: str) -> str:
        """Why scores of a task test nothing that a trained encoder is needed for, as a sentence; empty if they do.

        A task without floor runs in the settings is not asked: classification, and the paper scale.
        """
        if not any(run.variant == RANDOM_ENCODER for run in floor_runs(self.settings, task)):
            return ""
        above = self._above_floor(task)
        if above is None:
            return f"The floor of {task}, a trained head on a frozen random encoder, is not measured."
        return "" if above else f"On {task} no pruning is not above its floor by an interval without zero."

    def _above_floor(self, task: str) -> bool | None:
        if task not in self._above_floors:
            found = Measured(gather(floor_runs(self.settings, task), self.root, self.compare), 1.0, self.root)
            whole = found.has(f"{DENSE}:{RANDOM_ENCODER}")
            self._above_floors[task] = found.above_floors(PRIMARY_METRIC[task]) if whole else None
        return self._above_floors[task]

    def caveat(self, task: str) -> str:
        """A sentence behind what is judged on a task whose no pruning is not above every floor; else empty."""
        if self._above_floor(task) is not False:
            return ""
        return (
            f" On {task} no pruning is not above every floor of this scale, so this tells what is lost with "
            "the patches themselves, not with what a trained encoder knows of them."
        )

    def probe(self, task: str, kind: str) -> ProbeResults | None:
        """A task's probe, ``layers`` or ``recovery``; None if it is not made."""
        if (task, kind) not in self._probes:
            self._probes[task, kind] = read_probe(self.scale, task, kind, self.root, self.compare)
        return self._probes[task, kind]

    def controls(self, task: str, method: str) -> ControlResults | None:
        """The controls of a TAP method's checkpoints; None if none was controlled, or the scale has no such task."""
        if (task, method) not in self._controls:
            there = task in self.settings.tasks
            self._controls[task, method] = read_controls(self.settings, task, method, self.root) if there else None
        return self._controls[task, method]

    def pictured(self, task: str) -> Pictured | None:
        """An image of a task under the methods of the paper's figure; None if nobody has looked yet.

        Raises:
            UserError: the file cannot be read, or is of another form.
        """
        path, mend = self.root / pictured_path(self.scale, task), f"`tap kept {task}` makes it"
        if not path.is_file():
            return None
        try:
            return Pictured.of_arrays(read_arrays(path, mend))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: does not hold an image under several methods ({error}); {mend}") from error

    def profile(self, task: str, shapes: Shapes) -> Profile | None:
        """The profile of a task (or ``growth``) that tables show; None if no machine was profiled at such shapes.

        The smoke scale shows nothing that was measured at others' shapes, nor they what was at its.
        """
        if shapes not in shapes_of(self.settings):
            return None
        if (task, shapes) not in self._profiles:
            path = profile_in_use(self.settings, shapes, task, self.root)
            rate = load_scale(shapes, root=self.root).main_rate
            self._profiles[task, shapes] = None if path is None else read_profile(path, self.root, rate)
        return self._profiles[task, shapes]

    @property
    def own_shapes(self) -> Shapes:
        """The shapes of the scale's own models."""
        return shapes_of(self.settings)[0]

    @property
    def profiled_shapes(self) -> Shapes:
        """The shapes of what stands beside the paper's speeds: the paper's, but at smoke."""
        return shapes_of(self.settings)[-1]

    def speed(self, task: str, selector: str, metric: str) -> Value | None:
        """A speed or memory at the shapes that stand beside the paper's; None if it was not measured."""
        profile = self.profile(task, self.profiled_shapes)
        return None if profile is None else profile.value(selector, metric)

    def control(self, task: str, selector: str) -> tuple[ControlResults, str] | None:
        """The controls among which a selector names one, and which: ``tap_f:zero_fill`` is a control of a checkpoint,
        evaluated on its images alone; None for a selector of runs."""
        key = self.measured(task).key(selector)
        if key.rate != self.settings.main_rate or self.measured(task).has(selector):
            return None
        found = self.controls(task, key.method)
        return (found, key.variant) if found is not None and found.has(key.variant) else None

    def value(self, task: str, selector: str, metric: str) -> Value | None:
        """Mean over seeds; None if it was not measured."""
        if (found := self.control(task, selector)) is not None:
            return found[0].value(found[1], metric)
        return self.measured(task).value(selector, metric)

    def estimated(self, task: str, selector: str, metric: str) -> Value | None:
        """Mean over seeds with its own interval, as far as single images are known; None if it was not measured."""
        found, measured = self.value(task, selector, metric), self.measured(task)
        known = None if self.control(task, selector) is not None else measured.estimate(selector, metric)
        if found is None or known is None:
            return found
        return replace(found, interval=known.interval, precision=known.precision)

    def difference(self, task: str, first: str, second: str, metric: str) -> Value | None:
        """Mean of first - second over common seeds, with its paired interval where images are known.

        A control stands beside others of the same checkpoints, and beside these themselves, on the images of the
        controls.
        """
        pair = [self.control(task, selector) for selector in (first, second)]
        results = next((found[0] for found in pair if found is not None), None)
        if results is None:
            return self.measured(task).difference(first, metric, second)
        names = []
        for selector, found in zip((first, second), pair, strict=True):
            key = self.measured(task).key(selector)
            if found is None and (key.variant != MAIN or self.controls(task, key.method) is not results):
                return None
            names.append(FULL if found is None else found[1])
        return results.difference(names[0], names[1], metric)

    def per_seed(self, task: str, selector: str, metric: str) -> dict[str, float]:
        """A metric of every run of a selector, by run id."""
        if (found := self.control(task, selector)) is not None:
            return found[0].per_seed(found[1], metric)
        return self.measured(task).per_seed(selector, metric)

    def facts(self, runs: tuple[str, ...], column: str) -> tuple[str, ...]:
        """Where runs of one task were measured (device, batch, dtype, kernel); probes are ``probes/<task>/<kind>``,
        profiles ``profiles/<device>/<shapes>/<task>``."""
        profiles = [run.split("/") for run in runs if run.startswith(f"{FOLDER}/")]
        of_profiles = {
            fact
            for _, _, shapes, task in profiles
            if (profile := self.profile(task, shapes)) is not None  # type: ignore[arg-type]
            for fact in profile.facts(column)
        }
        if profiles:
            return tuple(sorted(of_profiles))
        named = [run.split("/") for run in runs if run.startswith("probes/")]
        probes = [probe for _, of, kind in named if (probe := self.probe(of, kind)) is not None]
        if probes:
            known = [probe.facts(column) for probe in probes if column in probe.frame]
        else:
            known = [self.measured(task).facts_of(runs, column) for task in {run.split("/")[0] for run in runs}]
        return tuple(sorted({item for part in known for item in part}))

    def devices(self, runs: tuple[str, ...]) -> tuple[str, ...]:
        """What the runs ran on."""
        return self.facts(runs, "device")

    def lacking(self, task: str, selectors: tuple[str, ...], metric: str) -> list[str]:
        """The selected runs that do not give a metric, in words."""
        lacking = []
        for selector in selectors:
            if self.value(task, selector, metric) is None:
                method, variant, rate = self.measured(task).key(selector)
                lacking.append(f"{quantity(metric)} of {title_of(f'{task}/{method}/r{rate:.2f}/{variant}')}")
        return lacking


def reference(name: str) -> Printed:
    """A printed number by its address: ``text/<statement>/<part>`` or ``<label>/<row>/<column>``.

    Raises:
        UserError: the paper prints no number there.
    """
    try:
        place, row, column = name.split("/")
        found = stated(row, column) if place == "text" else load_reported(place).cell(row, column)
    except (KeyError, ValueError, UserError) as error:
        raise UserError(f"reported: '{name}' is no printed number ({error})") from error
    if found is None or found.value is None:
        raise UserError(f"reported: the paper prints no number at '{name}'")
    return found
