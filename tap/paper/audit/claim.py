"""A claim of the paper: what it says, where, on what it rests, how it is judged. One file each (`tap/paper/claims`).

A file names its parts, each with a predicate (`tap.paper.audit.predicates`), the predicate's arguments, and the scales
at which the part can be judged: orders and signs also at desk scale, printed values at paper scale only.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tap.errors import UserError
from tap.paper.audit.outcome import Outcome, Verdict, combine, not_measured
from tap.paper.audit.predicates import OF_LEARNING, PREDICATES
from tap.paper.audit.words import stand_ins
from tap.paper.evidence import Evidence, reference
from tap.paper.learned import learning_note
from tap.paper.reported import load_reported, reported_labels
from tap.paper.yaml_file import read_yaml
from tap.task_facts import TASKS

FOLDER = Path(__file__).parents[1] / "claims"
SOURCES = ("claim-map", "abstract", "text")
_SMOKE = "results at a scale whose numbers mean something (this is smoke)"


class Part(BaseModel):
    """One statement that a predicate judges."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str = Field(description="what must hold")
    predicate: str = Field(description="name of the predicate")
    arguments: dict[str, Any] = Field(description="what the predicate gets")
    scales: tuple[Literal["desk", "paper"], ...] = Field(("desk", "paper"), min_length=1, description="where to judge")

    @model_validator(mode="after")
    def _fits(self) -> Part:
        if self.predicate not in PREDICATES:
            raise ValueError(f"predicate '{self.predicate}' is not one of {', '.join(PREDICATES)}")
        try:
            inspect.signature(PREDICATES[self.predicate]).bind(None, **self.arguments)
        except TypeError as error:
            raise ValueError(f"{self.predicate}: {error}") from error
        for address in (value for value in self.arguments.values() if isinstance(value, str) and "/" in value):
            try:
                reference(address)
            except UserError as error:
                raise ValueError(str(error)) from error
        return self

    def judge(self, evidence: Evidence) -> Outcome:
        """What the evidence says of this part."""
        if evidence.scale == "smoke":
            return not_measured(_SMOKE)
        outcome = PREDICATES[self.predicate](evidence, **self.arguments)
        if self.predicate in OF_LEARNING and outcome.verdict != Verdict.NOT_MEASURED:
            outcome = _comparable(outcome, evidence)
        if evidence.scale in self.scales:
            return outcome
        text = f"Can be judged at {' or '.join(self.scales)} scale only"
        seen = "" if outcome.value is None else f"; at {evidence.scale} scale: {outcome.sentence}"
        return Outcome(
            Verdict.NOT_MEASURED,
            f"{text}{seen}" if seen else f"{text}.",
            outcome.value,
            outcome.low,
            outcome.high,
            outcome.seeds,
            outcome.runs,
            outcome.devices,
            (f"results at {' or '.join(self.scales)} scale",),
        )


def _with_data(outcome: Outcome, evidence: Evidence) -> Outcome:
    """The outcome, whose sentence names what the runs behind it had in the place of the paper's data."""
    behind = [run.removeprefix("probes/").partition("/")[0] for run in outcome.runs]
    data = _stand_ins(evidence, [task for task in TASKS if task in behind])
    return replace(outcome, sentence=f"{outcome.sentence} Measured {data}.") if data else outcome


def _stand_ins(evidence: Evidence, tasks: Sequence[str]) -> str:
    configured = evidence.settings.tasks
    return stand_ins((task, configured[task].data.name) for task in tasks if task in configured)


def _comparable(outcome: Outcome, evidence: Evidence) -> Outcome:
    """The outcome, or that it is none because the register of a run behind it did not learn."""
    note = learning_note(evidence, outcome.runs)
    if not note:
        return outcome
    return replace(outcome, verdict=Verdict.NOT_COMPARABLE, sentence=f"{note} {outcome.sentence}")


class Grounds(BaseModel):
    """Where the evidence for a claim lies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: tuple[str, ...] = Field((), description="labels of reported tables")
    figures: tuple[str, ...] = Field((), description="figures of the paper")
    tests: tuple[str, ...] = Field((), description="tests of this project, by path")

    @model_validator(mode="after")
    def _known(self) -> Grounds:
        if unknown := set(self.tables) - set(reported_labels()):
            raise ValueError(f"tables: '{sorted(unknown)[0]}' is not a table of the paper")
        return self


class Claim(BaseModel):
    """A claim with the way to judge it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$", description="stable name; the file is called by it")
    title: str = Field(description="the claim in a few words")
    source: Literal["claim-map", "abstract", "text"] = Field(description="which list of claims it belongs to")
    where: str = Field(description="place in the paper")
    evidence: Grounds
    parts: tuple[Part, ...] = Field(min_length=1)

    @property
    def tasks(self) -> list[str]:
        """Tasks that the parts are about."""
        named = [value for part in self.parts for value in part.arguments.values()]
        return [
            task
            for task in TASKS
            if any(task == value or (isinstance(value, list) and task in value) for value in named)
        ]

    def judge(self, evidence: Evidence) -> Judgement:
        """The verdict on this claim.

        Raises:
            UserError: results cannot be read.
        """
        outcomes = tuple(_with_data(part.judge(evidence), evidence) for part in self.parts)
        data = _stand_ins(evidence, self.tasks)
        if evidence.scale == "smoke":
            return Judgement(self, evidence.scale, Verdict.NOT_MEASURED, outcomes, data)
        judged = [
            outcome.verdict for part, outcome in zip(self.parts, outcomes, strict=True) if evidence.scale in part.scales
        ]
        return Judgement(self, evidence.scale, combine(judged), outcomes, data)


@dataclass(frozen=True)
class Judgement:
    """What became of a claim at a scale.

    Attributes:
        claim: the claim.
        scale: whose results.
        verdict: on all parts that the scale can judge.
        outcomes: of each part.
        data: what stood in for the paper's data; empty where it is the same.
    """

    claim: Claim
    scale: str
    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    data: str = ""

    @property
    def headline(self) -> str:
        """The verdict in words, with the data; below paper scale it says so, and how much of the claim was judged."""
        if self.verdict == Verdict.NOT_MEASURED:
            text = f"not measured at {self.scale} scale"
        else:
            text = f"{self.verdict} at {self.scale} scale"
        text += f", {self.data}" if self.data else ""
        judged = [part for part in self.claim.parts if self.scale in part.scales]
        if self.scale != "smoke" and 0 < len(judged) < len(self.claim.parts):
            text += f" ({len(judged)} of {len(self.claim.parts)} parts; the others need another scale)"
        elif self.scale == "desk" and not judged:
            text += " (printed values need paper scale)"
        return text


def load_claims(folder: Path = FOLDER) -> list[Claim]:
    """All claims: those of the paper's own map in its order, then abstract and text by name.

    Raises:
        UserError: a file is not a claim.
    """
    claims = [read_claim(path) for path in sorted(folder.glob("*.yaml"))]
    order = [row.key for row in load_reported("tab:claim-map").rows]
    return sorted(
        claims,
        key=lambda claim: (
            SOURCES.index(claim.source),
            order.index(claim.id) if claim.id in order else len(order),
            claim.id,
        ),
    )


def read_claim(path: Path) -> Claim:
    """Reads one claim.

    Raises:
        UserError: the file is not a claim, or is called by another name than its id.
    """
    claim: Claim = read_yaml(path, Claim)
    if claim.id != path.stem:
        raise UserError(f"{path}: holds the claim '{claim.id}'; call the file {claim.id}.yaml")
    return claim
