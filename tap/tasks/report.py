"""What a check of a person's data found, as text that can be read at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tap.config.data import DataConfig

_SHOWN = 20


def expected_images(data: DataConfig, complete: Mapping[str, int]) -> dict[str, int]:
    """Images by split that a person's folder must hold: those of the whole data set, or of the part that they state.

    Args:
        data: the settings.
        complete: images of the whole data set, by the names of the training and the evaluation split.
    """
    return dict(complete) if data.subset is None else dict(zip(complete, data.subset, strict=True))


@dataclass(frozen=True)
class Problem:
    """One kind of fault.

    Attributes:
        text: what is wrong and how to mend it.
        items: the files or folders concerned.
    """

    text: str
    items: tuple[str, ...] = ()


@dataclass
class Report:
    """Facts and problems of one folder.

    Attributes:
        title: what was checked.
        facts: lines that state what is there.
        problems: what is wrong; empty means that the data is usable.
    """

    title: str
    facts: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def problem(self, text: str, items: Iterable[str] = ()) -> None:
        """Notes a fault."""
        self.problems.append(Problem(text, tuple(items)))

    def render(self, shown: int = _SHOWN) -> str:
        """The report as text.

        Args:
            shown: concerned files listed per problem; the rest is counted.
        """
        lines = [self.title, *(f"  {fact}" for fact in self.facts)]
        for problem in self.problems:
            lines.append(f"  WRONG: {problem.text}")
            lines += [f"    {item}" for item in problem.items[:shown]]
            if len(problem.items) > shown:
                lines.append(f"    ... and {len(problem.items) - shown} more")
        lines.append("  all right" if self.ok else f"  {len(self.problems)} problem(s)")
        return "\n".join(lines)
