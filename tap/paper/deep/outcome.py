"""What a deep verification looked at and found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tap.errors import UserError
from tap.paper.deep.texts import of_interval
from tap.paper.difference import Difference

_NOTHING: Final = (None, "", "0 times", "no such line", "not measured")
"""How it looks where today's code states no value."""


@dataclass
class Outcome:
    """What was compared, what differs, and what could not be compared.

    Attributes:
        compared: how many values or files of each kind were made anew, by the kind in words.
        differences: stated values that were not found again.
        faults: files that cannot be read or followed, one line each.
        notes: what could not be looked at, one line each.
    """

    compared: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, count: int, differences: Iterable[Difference] = ()) -> None:
        """Takes in a comparison of some values or files."""
        self.compared[kind] = self.compared.get(kind, 0) + count
        self.differences += differences

    @contextmanager
    def following(self, record: str) -> Iterator[None]:
        """What cannot be read while a record is followed is a finding about it, and the next one is looked at."""
        try:
            yield
        except UserError as error:
            self.faults.append(str(error))
        except (KeyError, TypeError, ValueError, IndexError) as error:  # forged files may hold anything
            self.faults.append(f"{record}: cannot be followed ({error!r})")

    def join(self, other: Outcome) -> None:
        """Takes in all of another outcome."""
        for kind, count in other.compared.items():
            self.add(kind, count)
        self.differences += other.differences
        self.faults += other.faults
        self.notes += other.notes

    def set_aside(self, files: Collection[str]) -> None:
        """Turns stated values of some files that nothing is found for into one note.

        Args:
            files: those of other code, which may have stated what today's does not, such as a speed.
        """
        if bounds := self._taken_out(files, of_interval):
            self.notes.append(
                f"{len(bounds)} bounds of intervals, and verdicts by them, in {len({item.file for item in bounds})} "
                f"files of other code are others by today's (the first: {bounds[0]}); their own code compares them"
            )
        if unknown := self._taken_out(files, _states_nothing):
            self.notes.append(
                f"{len(unknown)} values in {len({item.file for item in unknown})} files of other code not compared, "
                f"since today's states none in their place (the first: {unknown[0]}); their own code compares all"
            )

    def _taken_out(self, files: Collection[str], which: Callable[[Difference], bool]) -> list[Difference]:
        """Some differences of some files, which are none any more."""
        found = [item for item in self.differences if item.file in files and which(item)]
        self.differences = [item for item in self.differences if item.file not in files or not which(item)]
        return found

    @property
    def lines(self) -> list[str]:
        """One line for each thing that is wrong."""
        return [*map(str, self.differences), *self.faults]

    def summary(self) -> str:
        """How much was compared, in words."""
        what = ", ".join(f"{count} {kind}" for kind, count in self.compared.items() if count)
        return f"made anew and compared: {what or 'nothing'}"


def _states_nothing(item: Difference) -> bool:
    """Whether a value was not made anew at all, as if no run had it."""
    return item.recomputed in _NOTHING or (item.field.endswith("n_seeds") and item.recomputed in (0, "0"))
