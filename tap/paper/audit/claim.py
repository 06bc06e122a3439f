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
from tap.paper.audit.comparable import not_comparable
from tap.paper.audit.decision import Decision, corrected
from tap.paper.audit.outcome import Outcome, Verdict, combine, not_measured
from tap.paper.audit.predicates import OF_LEARNING, OF_PROBES, PREDICATES
from tap.paper.audit.words import stand_ins
from tap.paper.evidence import Evidence, reference
from tap.paper.reported import load_reported, reported_labels
from tap.paper.yaml_file import read_yaml
from tap.task_facts import TASKS

FOLDER = Path(__file__).parents[1] / "claims"
SOURCES = ("claim-map", "abstract", "text")
_TESTED = (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.INCONCLUSIVE)
_SMOKE = "results at a scale whose numbers mean something (this is smoke)"


class Part(BaseModel):
    """One statement that a predicate judges."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str = Field(description="what must hold")
    predicate: str = Field(description="name of the predicate")
    arguments: dict[str, Any] = Field(description="what the predicate gets")
    scales: tuple[Literal["desk", "paper"], ...] = Field(("desk", "paper"), min_length=1, description="where to judge")
    needed: bool = Field(False, description="whether the claim falls with this part alone")
    training: bool = Field(False, description="whether it is about how something trains, which takes enough updates")

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
        if self.predicate in (*OF_LEARNING, *OF_PROBES) and outcome.verdict != Verdict.NOT_MEASURED:
            outcome = self._comparable(outcome, evidence)
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
            outcome.by_seed,
        )

    @property
    def tasks(self) -> list[str]:
        """Tasks that it is about."""
        named = self.arguments.values()
        return [task for task in TASKS if any(task == value for value in named)]

    def _comparable(self, outcome: Outcome, evidence: Evidence) -> Outcome:
        """The outcome, or that what was measured does not test the statement, whatever it says."""
        metrics = [
            self.arguments[name] for name in ("metric", "first_metric", "second_metric") if name in self.arguments
        ]
        note = not_comparable(evidence, self.tasks, metrics, outcome.runs, self.training)
        if not note:
            return outcome
        sentence = f"{note} {outcome.sentence.removesuffix(outcome.reason).rstrip()}"
        return replace(outcome, verdict=Verdict.NOT_COMPARABLE, sentence=sentence, p=None, reason=note)


def _with_data(outcome: Outcome, evidence: Evidence) -> Outcome:
    """The outcome, whose sentence names what the runs behind it had in the place of the paper's data."""
    behind = [run.removeprefix("probes/").partition("/")[0] for run in outcome.runs]
    data = _stand_ins(evidence, [task for task in TASKS if task in behind])
    return replace(outcome, sentence=f"{outcome.sentence} Measured {data}.") if data else outcome


def _stand_ins(evidence: Evidence, tasks: Sequence[str]) -> str:
    configured = evidence.settings.tasks
    return stand_ins((task, configured[task].data.name) for task in tasks if task in configured)


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
        named = {task for part in self.parts for task in part.tasks}
        return [task for task in TASKS if task in named]

    def judge(self, evidence: Evidence) -> Judgement:
        """The verdict on this claim.

        Raises:
            UserError: results cannot be read.
        """
        outcomes = tuple(_with_data(part.judge(evidence), evidence) for part in self.parts)
        data = _stand_ins(evidence, self.tasks)
        if evidence.scale == "smoke":
            return Judgement(self, evidence.scale, Verdict.NOT_MEASURED, outcomes, data)
        outcomes = corrected_outcomes(outcomes)
        return Judgement(self, evidence.scale, self.verdict_of(outcomes, evidence.scale), outcomes, data)

    def verdict_of(self, outcomes: Sequence[Outcome], scale: str) -> Verdict:
        """The verdict that the outcomes of its parts make at a scale."""
        pairs = [(part, outcome) for part, outcome in zip(self.parts, outcomes, strict=True) if scale in part.scales]
        return combine([outcome.verdict for _, outcome in pairs], [part.needed for part, _ in pairs])


def corrected_outcomes(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """The outcomes of a claim's parts after Holm's correction, with their adjusted p-values."""
    parts = corrected([Decision(item.verdict, item.p if item.verdict in _TESTED else None) for item in outcomes])
    count, found = sum(part.p is not None for part in parts), []
    for outcome, part in zip(outcomes, parts, strict=True):
        if part.verdict != outcome.verdict:
            reason = f"Of {count} parts looked at, its p-value is {part.p:.2g} by Holm's correction."
            outcome = replace(outcome, verdict=part.verdict, sentence=f"{outcome.sentence} {reason}", reason=reason)
        found.append(outcome if part.p is None else replace(outcome, p=part.p))
    return tuple(found)


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
        against = sum(outcome.verdict == Verdict.CONTRADICTED for outcome in self.outcomes)
        if against and self.verdict != Verdict.CONTRADICTED:
            text += f"; {against} of its parts contradicted"
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
