"""A search of methods' own settings as a job (`tap tune`): candidates are trained, and the calibration split judges.

Candidates are no runs: nothing of them is published but their scores. Each is kept in a scratch folder of its own as
soon as it is judged, so that a killed search goes on where it was, and so that several processes that are given the
same command share the work: one that finds a candidate in another's hands takes the next.

Validation images have no part in it. Nor do runs: what some methods learn from, and the endpoint of the common
recovery, come from the best no-pruning candidate of the search itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.engine.checkpoint import save_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.distributed import Processes, join_processes
from tap.engine.job import TEACHER, fit, identity_of, read_files
from tap.engine.loop import NotFinite
from tap.engine.published import WEIGHTS
from tap.engine.resume import ResumeStates
from tap.errors import UserError
from tap.plan.endpoints import endpoint_file
from tap.plan.runs import run_of
from tap.plan.teaching import has_teacher
from tap.plan.tuning import (
    Candidate,
    Search,
    candidate_spec,
    rounds_of,
    search_path,
    searched_seeds,
    searched_settings,
)
from tap.provenance.files import atomic_write, sha256_file
from tap.provenance.locks import is_held, waiting_lock
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, evidence_of_data, record_job
from tap.studies.endpoint import better_endpoint, with_endpoint
from tap.studies.tuning_outcome import as_csv, best_place, in_words, outcome_of
from tap.tasks.base import Task
from tap.tasks.registry import get_task

SCORE = "score.json"
"""What is kept of a candidate that is judged."""


def run_search(
    cfg: ScaleConfig, name: str, search: Search, stamp: Stamp = BY_HAND, codes: Mapping[str, str] | None = None
) -> Path:
    """Searches, and writes the result as JSON and, line by line, as CSV, with the job's record.

    Args:
        cfg: the scale.
        name: of the task.
        search: `options`: which values of its own each method has; `budget`: how long trainings have to be.
        stamp: what the record says of the job.
        codes: fingerprint of the code behind the candidates of each method, so that another method repeats none of
            them; the job's own if not given.

    Returns:
        The JSON file.

    Raises:
        UserError: the scale does not have the task; there is no calibration image; what trainings start from is not
            there; every candidate of a method diverged.
        Stopped: the job was asked to end; what was found is kept.
    """
    started, rounds, seeds = datetime.now(UTC), rounds_of(cfg, name, search), searched_seeds(cfg, name, search)
    first = candidate_spec(cfg, name, search, rounds[0][0], seeds[0])
    task, device = get_task(first), select_device(cfg.device)
    if not len(task.datasets(first).calibration):
        raise UserError(
            f"tasks.{name}.data.calibration: the calibration split has no image, and nothing else judges candidates; "
            "raise it"
        )
    with join_processes(device.type) as processes:
        trials = Trials(cfg, name, search, stamp, codes or {}, task, device, processes)
        total = len(seeds) * sum(map(len, rounds))
        endpoints = [trials.run(candidates, seeds, total) for candidates in rounds]
        path = search_path(cfg.scale, name, search)
        if not processes.first:
            return path
        content = {
            **outcome_of(cfg, name, search, task.facts.score, trials.scores),
            "calibration_images": len(task.datasets(first).calibration),
            "endpoints": endpoints,
        }
        # Another process of the same command may be at its end as well, and each removes what is torn of these files.
        with cpu_threads(first.train.threads), waiting_lock(run_of(first).scratch / "result.lock", lambda: None):
            outputs = [
                atomic_write(path, json.dumps(content, indent=1) + "\n"),
                atomic_write(path.with_suffix(".csv"), as_csv(content["methods"])),
            ]
            record_job(
                path.with_suffix(RECORD_SUFFIX),
                stamp,
                inputs=[*sorted(trials.read), *evidence_of_data(first)],
                outputs=outputs,
                started=started,
                device=describe_device(device),
                threads=first.train.threads,
                bases=(first.data.root,),
                facts={"dataset": first.data.name, "processes": processes.world_size},
            )
    print(in_words(cfg, content))
    return path


class Trials:
    """The candidates of a search, trained and judged one after the other.

    Args:
        cfg, name, search, stamp, codes: as of `run_search`.
        task: the pipeline.
        device: where to compute.
        processes: this process among those of the job.

    Attributes:
        scores: of what has been judged.
        read: files that trainings started from.
    """

    def __init__(
        self,
        cfg: ScaleConfig,
        name: str,
        search: Search,
        stamp: Stamp,
        codes: Mapping[str, str],
        task: Task,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self._cfg, self._name, self._search, self._stamp, self._codes = cfg, name, search, stamp, codes
        self._task, self._device, self._processes = task, device, processes
        self._metric = task.facts.score
        self.scores: dict[tuple[str, int, int], float | None] = {}
        self.read: set[Path] = set()

    def run(self, candidates: Sequence[Candidate], seeds: Sequence[int], total: int) -> float | None:
        """A round: no pruning first, then all others with what its best candidate says.

        Args:
            candidates: trained for one length.
            seeds: each is trained with.
            total: trainings of the whole search, for messages.

        Returns:
            The endpoint of the common recovery; None where no candidate reads one that is to be chosen.

        Raises:
            UserError: every candidate without pruning diverged.
        """
        alone = [each for each in candidates if each.method == DENSE]
        others = [each for each in candidates if each.method != DENSE]
        self._all([(each, seed, None, None) for each in alone for seed in seeds], total)
        best = alone[best_place(alone, seeds, self.scores, self._metric)]
        weights = {seed: run_of(self._spec(best, seed)).scratch / WEIGHTS for seed in seeds}
        firsts = {each.method: self._spec(each, seeds[0]) for each in reversed(others)}
        choosing = [spec for spec in firsts.values() if endpoint_file(spec) is not None]
        endpoint = None
        if choosing:
            pruned = [(spec, path) for spec in choosing for path in weights.values()]
            with cpu_threads(choosing[0].eval.threads):
                endpoint = better_endpoint(pruned, self._task, self._device).endpoint
        self._all([(each, seed, weights[seed], endpoint) for each in others for seed in seeds], total)
        return endpoint

    def _spec(self, candidate: Candidate, seed: int) -> JobSpec:
        return candidate_spec(self._cfg, self._name, self._search, candidate, seed)

    def _all(self, trials: Iterable[tuple[Candidate, int, Path | None, float | None]], total: int) -> None:
        """Those that nobody else is at, then those that somebody was."""
        waiting = []
        for trial in trials:
            lock = run_of(self._spec(*trial[:2])).scratch / "lock"
            (elsewhere,) = self._processes.any_of(self._processes.first and is_held(lock))
            if elsewhere:
                waiting.append(trial)
            else:
                self._one(*trial, total)
        for trial in waiting:
            self._one(*trial, total)

    def _one(self, candidate: Candidate, seed: int, teacher: Path | None, endpoint: float | None, total: int) -> None:
        spec = self._spec(candidate, seed)
        spec = spec if endpoint is None or endpoint_file(spec) is None else with_endpoint(spec, endpoint)
        folder, processes = run_of(spec).scratch, self._processes
        read = read_files(spec, teacher if has_teacher(spec) else None)
        self.read |= {path for name, path in read.items() if name != TEACHER}
        stamp = replace(self._stamp, fingerprint=self._codes.get(candidate.method, self._stamp.fingerprint))
        identity = identity_of(spec, stamp, read, processes) | {"eval": searched_settings(spec)["eval"]}
        states = ResumeStates(folder, identity, lambda text: self._say(f"{run_of(spec).id}: {text}"))
        with states.held() if processes.first else nullcontext():
            found = processes.first_then_others(lambda: kept_score(folder, states))
            known = found is not None
            if found is None:
                self._judge(spec, read.get(TEACHER), states)
                found = processes.first_then_others(lambda: kept_score(folder, states))
        if found is None:
            raise UserError(f"{folder}: cannot be read back; is another process removing it?")
        self.scores[candidate.method, candidate.number, seed] = score = found["score"]
        text = "diverged" if score is None else f"{self._metric.name} {score:.2f}"
        self._say(
            f"{len(self.scores)} of {total}: {candidate.method}, {candidate.text}, {spec.train.length:g} "
            f"{spec.train.unit}, seed {seed}: {text} on the calibration split{' (kept)' if known else ''}"
        )

    def _judge(self, spec: JobSpec, teacher: Path | None, states: ResumeStates) -> None:
        """Trains a candidate and keeps its score; of no pruning the weights too, which others may read."""
        folder, score, digest = run_of(spec).scratch, None, None
        try:
            with cpu_threads(spec.train.threads):
                trained, _, _ = fit(spec, self._task, teacher, states, self._processes, self._device)
        except NotFinite as error:
            self._say(str(error))
        else:
            if self._processes.first:
                model: Any = self._task.build_model(spec)  # anew, as an evaluation does
                model.load_state_dict(trained.state_dict())
                with cpu_threads(spec.eval.threads):
                    found = self._task.evaluate(model.to(self._device), spec, "calibration", self._device)
                score = found.metrics[self._metric.name]
                if spec.method == DENSE:
                    digest = sha256_file(save_weights(folder / WEIGHTS, model.state_dict(), {"run": run_of(spec).id}))
        if self._processes.first:
            score = score if score is not None and math.isfinite(score) else None
            atomic_write(folder / SCORE, json.dumps({"score": score, "weights": digest}) + "\n")
            states.finish()

    def _say(self, text: str) -> None:
        if self._processes.first:
            print(f"tune {self._name}: {text}", file=sys.stderr, flush=True)


def kept_score(folder: Path, states: ResumeStates) -> dict[str, Any] | None:
    """What is kept of a candidate; None if it is not judged with these settings, code and inputs, or is damaged."""
    if not states.finished or not (folder / SCORE).is_file():
        return None
    try:
        found = json.loads((folder / SCORE).read_text(encoding="utf-8"))
        whole = found["weights"] is None or sha256_file(folder / WEIGHTS) == found["weights"]
    except (ValueError, KeyError, OSError):
        return None
    return found if whole else None
