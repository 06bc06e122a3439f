"""Profiles of machines as tables, figures and claims read them: speeds with intervals, memory, components, growth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tap.errors import UserError
from tap.paper.measured import Value
from tap.paper.statistics import Interval

FOLDER: Final = "profiles"
"""How the ids of profiles begin: ``profiles/<device>/<shapes>/<task>``, as ids of probes do with ``probes``."""

MEND: Final = "`snakemake profile`, or `tap profile TASK` by hand,"
"""What makes a profile, in words."""

_NUMBERS: Final = {
    "encoder_images_per_second": ("images_per_second",),
    "encoder_speedup": ("speedup",),
    "full_images_per_second": ("full", "images_per_second"),
    "full_speedup": ("full", "ratio"),
    "gflops_per_image": ("gflops_per_image",),
    "bound": ("bound",),
    "of_bound": ("of_bound",),
    "peak_gb": ("memory", "peak_gb"),
    "weights_gb": ("memory", "weights"),
    "activations_gb": ("memory", "activations"),
}
"""Where a metric stands among what a profile says of a method."""
_BYTES: Final = ("weights_gb", "activations_gb")


@dataclass(frozen=True)
class Profile:
    """One profile.

    Attributes:
        id: what tables and claims call it by.
        rate: main keep rate of the shapes: of subjects that name none.
        content: its parts, as `tap.profiling.profile` wrote them.
    """

    id: str
    rate: float
    content: Mapping[str, Any]

    @property
    def on_gpu(self) -> bool:
        """Whether it was taken on a GPU."""
        return self.id.split("/")[1].startswith("gpu-")

    @property
    def disturbed(self) -> bool:
        """Whether another load disturbed every attempt."""
        return bool(self.content.get("disturbed"))

    @property
    def device(self) -> str:
        """The machine in words."""
        return str(self.content["about"]["device"])

    def value(self, selector: str, metric: str) -> Value | None:
        """A number of a method, with the interval of a ratio over rounds; None where it was not measured.

        Args:
            selector: ``method`` or ``method@rate``.
            metric: a key of a main table, `bound`, `of_bound`, `gflops_per_image` or a kind of memory.
        """
        method, _, rate = selector.partition("@")
        subject = method if not rate or float(rate) == self.rate else f"{method}@{float(rate):.2f}"
        found: Any = self.content["methods"].get(subject)
        interval = None
        for key in _NUMBERS[metric]:
            if found is None:
                return None
            bounds = found.get("interval") or [found.get("low"), found.get("high")]
            found = found.get(key)
        if found is None:
            return None
        number = float(found) / (1e9 if metric in _BYTES else 1.0)
        if metric in ("encoder_speedup", "full_speedup"):
            interval = Interval(number, float(bounds[0]), float(bounds[1]))
        return Value(number, None, (), (self.id,), interval)

    def component(self, name: str, unit: str) -> Value | None:
        """Time of a component of a pass of TAP in `ms` per image or `percent`; None where it was not measured."""
        found = self.content.get("components", {}).get(unit, {}).get(name)
        return None if found is None else self.of(found)

    def of(self, number: float) -> Value:
        """A number of this profile."""
        return Value(float(number), None, (), (self.id,))

    def facts(self, column: str) -> list[str]:
        """Device, batch, precision or kernel."""
        protocol = self.content["about"]["protocol"]
        known = {
            "device": self.device,
            "batch": self.content.get("batch"),
            "dtype": protocol["dtype"],
            "kernel": self.content["kernel"],
        }
        return [] if known.get(column) is None else [str(known[column])]

    def words(self) -> str:
        """Machine and protocol in a sentence of a caption, and what was wrong with it."""
        protocol, batch = self.content["about"]["protocol"], self.content["batch"]
        text = (
            f"{self.device}; batch {batch}; {protocol['dtype']}; {self.content['kernel']}; "
            f"{protocol['iterations']} passes in {protocol['rounds']} rounds"
        )
        if batch != self.content["wanted_batch"]:
            text += f"; memory for {batch} of {self.content['wanted_batch']} images"
        if self.disturbed:
            text += f"; disturbed by another load (dense times differ by {100 * self.content['dense_spread']:.0f} %)"
        return text


def read_profile(path: Path, root: Path, rate: float) -> Profile:
    """Reads what the job of a profile wrote.

    Args:
        path: relative to the project's root.
        root: the project's folder.
        rate: main keep rate of its shapes.

    Raises:
        UserError: the file is not a profile.
    """
    try:
        content = json.loads((root / path).read_text(encoding="utf-8"))
        content["about"]["protocol"], content["kernel"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as a profile ({error!r}); {MEND} makes it again") from error
    return Profile(id_of_profile(path.as_posix()), rate, content)


def id_of_profile(name: str) -> str:
    """The id of a profile's file (or of its record), relative to the project's root."""
    return name.removeprefix("results/").removesuffix(".json").removesuffix(".record")


def file_of_profile(identity: str) -> str:
    """The file that an id stands for, relative to the project's root."""
    return f"results/{identity}.json"
