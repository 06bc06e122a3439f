"""The joint training of a method that several tasks share a frozen base for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from tap.config.load import load_scale
from tap.config.lookup import method_of
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.code_roots import built
from tap.jobs.files import data_evidence, start_weights, weights
from tap.jobs.job import Content, Job, Resources
from tap.jobs.kinds.train import in_processes, say_if_unpinned
from tap.jobs.of_runs import RUN_FOLDER, fields_of_run
from tap.plan.joint import JointRun, joint_start, joint_tasks
from tap.plan.runs import runs_of_table, task_of
from tap.plan.specs import job_spec, settings_of
from tap.provenance.stages import stage_of
from tap.runs import Run

JointArgument = Annotated[str, typer.Argument(help="joint run, such as tap_f/r0.50/main/s0", metavar="RUN")]


class TrainJoint(Job[JointRun]):
    """Makes the weights of one run of every task; each of these has the files of `makes`."""

    name, command = "train_joint", "train-joint"
    about = "Train all tasks of a joint run; the same command goes on where a killed one stopped."
    makes: ClassVar[Mapping[str, str]] = {
        "weights": f"{RUN_FOLDER}/model.safetensors",
        "log": f"{RUN_FOLDER}/log.csv",
        "record": f"{RUN_FOLDER}/run.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> JointRun:
        """The training that makes the runs of a rule's outputs."""
        method, variant = wildcards["method"], wildcards["variant"]
        return JointRun(cfg.scale, method, float(wildcards["rate"]), variant, int(wildcards["seed"]))

    def fields(self, cfg: ScaleConfig, key: JointRun) -> Sequence[Mapping[str, str]]:
        """The parts of every task's run."""
        return [fields_of_run(key.of(task)) for task in joint_tasks(cfg, key.method)]

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[JointRun]]:
        """All of them, and those at keep rate 1 that they go on from."""
        runs = [run for task in built(cfg) for run in runs_of_table(cfg, task) if method_of(run.method).frozen]
        runs += [start for run in runs if (start := joint_start(job_spec(cfg, run))) is not None]
        found: dict[str, list[JointRun]] = {}
        for key in dict.fromkeys(map(JointRun.with_run, runs)):
            found.setdefault(stage_of(key.method), []).append(key)
        return found

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> JointRun:
        """The training of the run that a record names."""
        scale, _, name = content["run"].partition("/")
        return JointRun.with_run(Run.parse(scale, name))

    def argument(self, key: JointRun) -> str:
        """The joint run's id."""
        return key.id

    def specs(self, cfg: ScaleConfig, key: JointRun) -> dict[str, JobSpec]:
        """The settings of every task's run.

        Raises:
            UserError: not two tasks of the scale have the method, or one of them cannot have the run.
        """
        tasks = joint_tasks(cfg, key.method)
        if len(tasks) < 2:
            raise UserError(
                f"{key.id}: '{key.method}' is trained for several tasks together, but "
                f"{tasks[0] if tasks else 'no task'} alone lists it; list it in tasks.<task>.methods of two"
            )
        return {task: job_spec(cfg, key.of(task)) for task in tasks}

    def settings(self, cfg: ScaleConfig, key: JointRun) -> Any:
        """What the training reads of the settings of all its tasks."""
        specs = self.specs(cfg, key)
        return {"tasks": {task: settings_of(spec.model_dump(mode="json"), "train") for task, spec in specs.items()}}

    def reads(self, cfg: ScaleConfig, key: JointRun) -> Mapping[str, Sequence[Path]]:
        """The data of all tasks, the base, and the training at keep rate 1 that it goes on from."""
        specs = self.specs(cfg, key)
        starts = [start for spec in specs.values() if (start := joint_start(spec)) is not None]
        return {
            "data": list(dict.fromkeys(data_evidence(cfg, task) for task in specs)),
            "base": start_weights(next(iter(specs.values()))),
            "start": [weights(run) for run in starts],
        }

    def roots(self, cfg: ScaleConfig, key: JointRun) -> Sequence[str]:
        """The joint loop, all tasks and the method."""
        tasks = joint_tasks(cfg, key.method)
        models = [root for task in tasks for root in code_roots.of_model(task, key.method)]
        return ("tap.engine.joint_job:train_joint_run", *dict.fromkeys(models))

    def libraries(self, key: JointRun) -> tuple[str, ...]:
        """Those that compute with any task."""
        return code_roots.computing_with_all()

    def resources(self, cfg: ScaleConfig, key: JointRun) -> Resources:
        """Of each process its own threads, and one for each loading process."""
        specs = self.specs(cfg, key)
        threads = next(iter(specs.values())).train.threads
        workers = sum(task_of(cfg, task).data.workers for task in specs)
        processes = cfg.processes_of(None)
        gpus = processes if cfg.device == "cuda" else 0
        return Resources(
            processes * (threads + workers), gpus, *((192000, 8640) if cfg.scale == "paper" else (6000, 180))
        )

    def call(self) -> Callable[..., None]:
        """Takes the joint run."""

        def call(run: JointArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            key = JointRun.parse(cfg.scale, run)
            self.require_planned(cfg, key, spec)
            specs = self.specs(cfg, key)
            in_processes(cfg.processes_of(None), cfg.device)
            say_if_unpinned(key.id, next(iter(specs.values())))  # whose file is the base of all
            from tap.engine.joint_job import train_joint_run

            train_joint_run(specs, self.stamp(cfg, key))

        return call


JOB = TrainJoint()
