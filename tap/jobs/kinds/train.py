"""The training of a run, pre-training included."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tap.config.lookup import method_of
from tap.config.methods import PRETRAINING
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, start_weights, weights
from tap.jobs.job import Resources
from tap.jobs.of_runs import RUN_FOLDER, RunJob
from tap.plan.endpoints import endpoint_file
from tap.plan.joint import JointRun
from tap.plan.runs import pretrainings, run_of, runs_of_table, task_of
from tap.plan.specs import job_spec
from tap.plan.starts import start_run
from tap.plan.teaching import teacher_run
from tap.provenance.orphans import LAUNCHER
from tap.provenance.record import Stamp
from tap.provenance.stages import stage_of
from tap.runs import Run


class Train(RunJob):
    """Makes the weights of a run."""

    name, command, reader = "train", "train", "train"
    about = "Train a run; the same command goes on where a killed one stopped."
    makes: ClassVar[Mapping[str, str]] = {
        "weights": f"{RUN_FOLDER}/model.safetensors",
        "log": f"{RUN_FOLDER}/log.csv",
        "record": f"{RUN_FOLDER}/run.json",
    }

    def reads(self, cfg: ScaleConfig, key: Run) -> Mapping[str, Sequence[Path]]:
        """Data, and the weights that it starts from; some methods read the endpoint, or learn from a teacher."""
        spec = job_spec(cfg, key)
        endpoint, teacher = endpoint_file(spec), teacher_run(spec)
        return {
            "data": list(dict.fromkeys(data_evidence(cfg, task) for task in (key.task, *(spec.mixed or {})))),
            "start": start_weights(spec),
            "endpoint": [] if endpoint is None else [endpoint],
            "teacher": [] if teacher is None else [weights(teacher)],
        }

    def roots(self, cfg: ScaleConfig, key: Run) -> Sequence[str]:
        """The training loop, task and method; where several tasks give the images, all of them."""
        mixed = tuple(task_of(cfg, key.task).pretrain.mix or ()) if key.method == PRETRAINING else ()
        models = [root for task in (key.task, *mixed) for root in code_roots.of_model(task, key.method)]
        loop = ("tap.engine.joint:train_mixed",) if mixed else ()
        return ("tap.engine.job:train_run", *loop, *dict.fromkeys(models))

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Run]]:
        """All but those that are trained jointly; those of a method are of one stage."""
        runs = [run for task in built(cfg) for run in (*pretrainings(cfg, task), *_with_starts(cfg, task))]
        found: dict[str, list[Run]] = {}
        for run in dict.fromkeys(runs):
            if not method_of(run.method).frozen:
                found.setdefault(stage_of(run.method), []).append(run)
        return found

    def libraries(self, key: Run) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key.task)

    def resources(self, cfg: ScaleConfig, key: Run) -> Resources:
        """Of each process its own threads (one, so that two small trainings share two cores) and its loaders."""
        processes = cfg.processes_of(key.task)
        threads = processes * (job_spec(cfg, key).train.threads + task_of(cfg, key.task).data.workers)
        gpus = processes if cfg.device == "cuda" else 0
        return Resources(threads, gpus, *((128000, 4320) if cfg.scale == "paper" else (4000, 120)))

    def run(self, cfg: ScaleConfig, spec: JobSpec, stamp: Stamp) -> None:
        """Trains, in several processes where the settings ask for them."""
        if method_of(spec.method).frozen:
            raise UserError(
                f"train: {run_of(spec).id} is trained with the other tasks; "
                f"`tap train-joint {JointRun.with_run(run_of(spec)).id}`"
            )
        in_processes(cfg.processes_of(spec.task), cfg.device)
        say_if_unpinned(run_of(spec).id, spec)
        from tap.engine.job import train_run
        from tap.tasks.registry import get_task

        if not spec.mixed:
            train_run(spec, get_task(spec), stamp)
            return
        from tap.engine.joint import train_mixed

        train_run(spec, get_task(spec), stamp, train_mixed)


def _with_starts(cfg: ScaleConfig, task: str) -> Iterator[Run]:
    """The runs of a task's tables, each behind the training that it goes on from, if that is not pre-training."""
    for run in runs_of_table(cfg, task):
        if task_of(cfg, task).start_from == "dense" and not method_of(run.method).frozen:
            yield start_run(run)
        yield run


def in_processes(count: int, device: str) -> None:
    """Starts this command again in several processes where the settings ask for them."""
    if count > 1 and "WORLD_SIZE" not in os.environ:
        if device != "cpu":
            from tap.engine.gpu_pool import keep_through_exec, take_gpus

            take_gpus(count)
            keep_through_exec()
        launcher = ["torchrun", "--standalone", f"--nproc-per-node={count}", "-m", "tap.cli"]
        os.environ[LAUNCHER] = str(os.getpid())  # which stays its number
        os.execvp(launcher[0], [*launcher, *sys.argv[1:]])


def say_if_unpinned(name: str, spec: JobSpec) -> None:
    """Tells who trains from a file of weights that no hash in the settings holds fast; once where there are several
    processes.

    Args:
        name: of the training.
        spec: the run, or one of a joint training's.

    Raises:
        UserError: the file is not there.
    """
    from tap.tasks.given_weights import unpinned

    if os.environ.get("RANK", "0") == "0" and (text := unpinned(spec)) is not None:
        print(f"{name}: {text}", file=sys.stderr)


JOB = Train()
