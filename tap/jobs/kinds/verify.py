"""The walk from results back to the data; as a job, the list of all files behind a tidy table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.job import Content, Job, Resources, tabulating
from tap.plan.controls import files_of_controls
from tap.plan.results import CONTROLS, PROBES, results_of_probes, results_of_runs, tidy_path
from tap.provenance import verify as verification
from tap.provenance.finding import Kind
from tap.provenance.known_fingerprints import find_out_anew
from tap.provenance.publish import published_folder
from tap.provenance.root_hash import root_hash


class Verify(Job[str]):
    """Nothing edited gets into a table: what a tidy table was made from is compared with the records of the jobs."""

    name, command = "verify", "verify"
    about = "Walk from results back to the data and compare every file with its record; with --deep every value, too."
    makes: ClassVar[Mapping[str, str]] = {"record": "results/{scale}/verified_{of}.json"}

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> str:
        """Of what: a task, or `further_`, `probes_` or `controls_` and a task."""
        return wildcards["of"]

    def fields(self, cfg: ScaleConfig, key: str) -> Sequence[Mapping[str, str]]:
        """What its tidy table is called by."""
        return [{"of": key}]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> str:
        """Of what a record is."""
        return str(content["parameters"]["task"])

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """What it starts from: a tidy table, or the controls themselves."""
        return {"task": key, "targets": [path.as_posix() for path in _starts(cfg, key)]}

    def reads(self, cfg: ScaleConfig, key: str) -> Mapping[str, Sequence[Path]]:
        """What it starts from, and of a tidy table what it was made of."""
        if key.startswith(CONTROLS):
            return {"tidy": _starts(cfg, key), "results": []}
        task = key.removeprefix(PROBES)
        results = results_of_probes if key.startswith(PROBES) else results_of_runs
        return {"tidy": _starts(cfg, key), "results": results(cfg, task)}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """What it writes is a function of the files alone."""
        return ()

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def call(self) -> Callable[..., None]:
        """Takes files to start from, and what to let pass; with a task it keeps the list."""

        def call(
            targets: Annotated[
                list[Path] | None,
                typer.Argument(help="files to start from; all results of the scale if none is given"),
            ] = None,
            scale: ScaleOption = None,
            allow: Annotated[
                list[Kind] | None,
                typer.Option("--allow", help="kind of finding to let pass; may be given several times"),
            ] = None,
            everything: Annotated[
                bool,
                typer.Option(
                    "--all", help="name every file, where those of one kind and folder share a line otherwise"
                ),
            ] = False,
            strict: Annotated[
                bool, typer.Option("--strict", help="results of earlier code are stale, whatever a replay has shown")
            ] = False,
            task: Annotated[
                str | None,
                typer.Option("--task", help="keep the list of verified files as the one of this task's tables"),
            ] = None,
            published: Annotated[
                bool,
                typer.Option("--published", help="the committed results in published/<scale>; missing and stale pass"),
            ] = False,
            deep: Annotated[
                bool,
                typer.Option(
                    "--deep", help="also make all values anew from what they rest on, some images from weights"
                ),
            ] = False,
            images: Annotated[
                int, typer.Option("--images", min=1, help="with --deep: images of each run to evaluate anew")
            ] = 64,
            seed: Annotated[
                int | None,
                typer.Option("--seed", min=0, help="with --deep: which images; drawn if not given, and printed"),
            ] = None,
            spec: SpecOption = None,
        ) -> None:
            from tap.jobs.staleness import Today

            cfg = load_scale(scale)
            staleness = Today(cfg).staleness
            if task is not None:
                self.require_planned(cfg, task, spec)
                print(verification.write_verified(cfg, staleness, task, targets or ()))
                return
            find_out_anew()
            if deep and targets:
                raise UserError("--deep: looks at all results of the scale; name no files")
            passed = {*(allow or ()), *((Kind.MISSING, Kind.STALE) if published else ())}
            results = published_folder(cfg.scale) if published else None
            found = verification.verify(cfg, staleness, targets or (), results=results, strict=strict)
            if not deep:
                verification.require(found, passed, everything)
            else:
                from tap.paper.deep.command import run_deep_verification

                run_deep_verification(cfg, found, passed, images, seed, everything)
            if not found.order:
                print(f"results/{cfg.scale}: no results to verify; `make reproduce` makes them")
                return
            print(found.summary())
            print(f"root hash of scale {cfg.scale}: {root_hash(found.ledger)}")

        return call


def _starts(cfg: ScaleConfig, key: str) -> list[Path]:
    if key.startswith(CONTROLS):
        return files_of_controls(cfg, key.removeprefix(CONTROLS))
    return [tidy_path(cfg.scale, key)]


JOB = Verify()
