"""Which trained weights travel in a bundle, and which claims of the audit cannot be evaluated anew without the rest."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.runs import runs_of_table
from tap.provenance.checkpoints import WEIGHTS
from tap.provenance.ledger import Ledger
from tap.runs import Run

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class WeightSelection:
    """What to choose among the runs of the main tables; each with the weights that it was trained from.

    Attributes:
        tasks: names of tasks; all if empty.
        methods: names of methods; all if empty.
        seeds: seeds; the first one of each task if empty.
        everything: the weights of all runs, of other tables too.
    """

    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    everything: bool = False

    def __post_init__(self) -> None:
        if self.everything and self.narrow:
            raise UserError("--all: packs every run's weights; leave out --task, --method and --seed, or --all")

    @property
    def narrow(self) -> bool:
        """Whether tasks, methods or seeds were named."""
        return bool(self.tasks or self.methods or self.seeds)

    @property
    def suffix(self) -> str:
        """What tells its archive's name from that of another selection."""
        named = (*self.tasks, *self.methods, *(f"s{seed}" for seed in self.seeds))
        return "".join(f"-{part}" for part in named)

    def runs(self, cfg: ScaleConfig) -> list[Run]:
        """The chosen runs, in the order of the tables; without those that they were trained from.

        Raises:
            UserError: the scale has no such task, method or seed, or no run with all that was named.
        """
        settings = cfg.tasks
        _expect("--task", self.tasks, settings)
        _expect("--method", self.methods, {method for task in settings.values() for method in task.methods})
        _expect("--seed", self.seeds, {seed for task in settings.values() for seed in task.seeds})
        chosen = [
            run
            for task in settings
            for run in runs_of_table(cfg, task)
            if (not self.tasks or run.task in self.tasks)
            and (not self.methods or run.method in self.methods)
            and run.seed in (self.seeds or settings[task].seeds[:1])
        ]
        if not chosen:
            raise UserError(f"{cfg.scale}: no run of the main tables has all of{self.suffix.replace('-', ' ')}")
        return chosen

    def weights(self, cfg: ScaleConfig, ledger: Ledger) -> set[str]:
        """Names of the chosen files of weights, with those that they were trained from.

        Raises:
            UserError: as `runs`, or a run that was named has no weights.
        """
        if self.everything:
            return set(all_weights(ledger))
        wanted = [(run.folder / WEIGHTS).as_posix() for run in self.runs(cfg)]
        if self.narrow and (absent := [name for name in wanted if name not in ledger.maker]):
            raise UserError(f"{absent[0]}: no record says who made it; `snakemake` trains it")
        records = ledger.in_order([maker for name in wanted if (maker := ledger.maker.get(name))])
        made = {name for record in records for name in ledger.records[record].outputs}
        return made & set(all_weights(ledger))


def all_weights(ledger: Ledger) -> list[str]:
    """Names of the weights of all runs."""
    return [name for name in ledger.files if is_weights(name)]


def is_weights(name: str) -> bool:
    """Whether a file is a run's weights; copies that DVC keeps have other names."""
    return PurePosixPath(name).name == WEIGHTS


def claims_resting_on(audit: Path | None, weights: Collection[str] | None = None) -> list[str]:
    """Claims of an audit that were judged by measured runs.

    Args:
        audit: its ``audit.json``; None, or a file that is not there, judges nothing.
        weights: names of weights; only claims that rest on a run that they belong to. All if None.

    Returns:
        Their ids, in the order of the audit.
    """
    if audit is None or not audit.is_file():
        return []
    content = json.loads(audit.read_text(encoding="utf-8"))
    runs = None if weights is None else {"/".join(PurePosixPath(name).parts[3:-1]) for name in weights}

    def rests(claim: dict) -> bool:
        named = {run for part in claim["parts"] for run in part.get("runs", []) if not run.startswith("profiles/")}
        return bool(named if runs is None else named & runs)

    return [claim["id"] for claim in content["claims"] if claim["verdict"] != NOT_MEASURED and rests(claim)]


def _expect(option: str, given: Iterable, known: Iterable) -> None:
    there = sorted(set(known))
    for value in given:
        if value not in there:
            raise UserError(f"{option} {value}: is none of {', '.join(map(str, there))}")
