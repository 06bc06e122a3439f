"""`tap plan`: what a scale, a table or a claim will cost, before anything runs, and what it has cost so far."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tap.config.datasets import PREPARED
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs.kinds.probe import ProbeKey
from tap.jobs.registry import JOBS
from tap.plan.accelerators import UTILISATION
from tap.plan.claimed_runs import BY_PROFILES, claimed_controls, claimed_probes, claimed_runs
from tap.plan.controls import controlled_runs
from tap.plan.estimate import (
    DATA_BYTES,
    JOINT,
    PlannedJob,
    planned_controls,
    planned_jobs,
    planned_probes,
    planned_search,
)
from tap.plan.joint import JointRun
from tap.plan.profiles import PROFILES
from tap.plan.rates import Rates, card_rates, measured_rates, profiled_rates, used_seconds
from tap.plan.runs import main_runs, probed_runs, probes_of, runs_of_table, task_of
from tap.plan.wall_time import critical_path, wall_seconds
from tap.runs import Run

_HOUR = 3600.0


@dataclass(frozen=True)
class PlanLine:
    """A line of a plan: a method of a task, its probes or controls, a task, or all.

    Attributes:
        task, method: what it is about; `all` stands for several.
        trainings: jobs that train.
        others: jobs that evaluate, probe, control or choose.
        steps, images: of its trainings.
        hours: of one card (or of one job on a CPU), with the interval's ends.
        memory_gb: of a card, for one process of the training that needs most.
        least_gb: the same where it passes as few images at once as the settings allow.
        host_gb: of the machine, as its jobs ask for.
        disk_gb: weights and resume states.
        energy_kwh: of the cards; None where their power is not known.
        planned_of_used, used: hours of finished jobs as planned and as they were.
    """

    task: str
    method: str
    trainings: int
    others: int
    steps: int
    images: float
    hours: float
    hours_low: float
    hours_high: float
    memory_gb: float
    least_gb: float
    host_gb: float
    disk_gb: float
    energy_kwh: float | None
    planned_of_used: float
    used: float


@dataclass(frozen=True)
class Plan:
    """What a set of runs needs.

    Attributes:
        scale: whose settings.
        source: where the rates come from.
        gpus: cards (or jobs side by side).
        card: whether hours are those of cards.
        card_gb: memory of a card; None where it is not known.
        lines: of methods, of tasks, and of all, which is the last.
        jobs: every job with its planned and used hours.
        wall_days, critical_days: time from start to end, and of the longest chain.
        data_gb: of the data sets.
        search: trainings and hours of the search of methods' own settings in these tasks, which no line counts.
    """

    scale: str
    source: str
    gpus: int
    card: bool
    card_gb: float | None
    lines: tuple[PlanLine, ...]
    jobs: tuple[Mapping[str, Any], ...]
    wall_days: float
    critical_days: float
    data_gb: float
    search: tuple[int, float]

    @property
    def total(self) -> PlanLine:
        """The line of all."""
        return self.lines[-1]


def chosen_jobs(cfg: ScaleConfig, table: str | None = None, claim: str | None = None) -> list[PlannedJob]:
    """The jobs of a scale, of one table, or of one claim: trainings, evaluations, and what probes and controls need.

    Raises:
        UserError: the table or the claim is not known, or no run of the scale judges it.
    """
    if table is not None and claim is not None:
        raise UserError("tap plan: give --table or --claim, not both")
    if claim is not None:
        return _jobs_of_claim(cfg, claim)
    if table is not None:
        task = Path(table).stem.removeprefix("tab_")
        if task not in cfg.tasks:
            names = ", ".join(f"tab_{name}" for name in cfg.tasks)
            raise UserError(
                f"--table: '{table}' has no runs of its own; choose from {names}, or plan a claim (--claim)"
            )
        return planned_jobs(cfg, main_runs(cfg, task))
    jobs = planned_jobs(cfg, [run for task in cfg.tasks for run in runs_of_table(cfg, task)])
    jobs += [job for task in cfg.tasks for job in planned_probes(cfg, task, probes_of(task))]
    return jobs + [planned_controls(cfg, run) for task in cfg.tasks for run in controlled_runs(cfg, task)]


def _jobs_of_claim(cfg: ScaleConfig, claim: str) -> list[PlannedJob]:
    from tap.paper.audit.claim import load_claims
    from tap.paper.audit.predicates import OF_PROBES

    known = {found.id: found for found in load_claims()}
    if claim not in known:
        raise UserError(f"--claim: '{claim}' is not known; choose from {', '.join(known)}")
    parts = [(part.predicate, part.arguments) for part in known[claim].parts]
    probes = claimed_probes(cfg, [part for part in parts if part[0] in OF_PROBES])
    runs = claimed_runs(cfg, [part for part in parts if part[0] not in OF_PROBES])
    runs += [run for task, kinds in probes.items() for kind in kinds for run in probed_runs(cfg, task, kind)]
    if not runs and all(predicate in BY_PROFILES for predicate, _ in parts):
        raise UserError(f"--claim: '{claim}' needs no run, but a profile of the paper's shapes (`snakemake profile`)")
    if not runs:
        raise UserError(f"--claim: no run of scale '{cfg.scale}' has to do with '{claim}'")
    jobs = planned_jobs(cfg, list(dict.fromkeys(runs)))
    jobs += [job for task, kinds in probes.items() for job in planned_probes(cfg, task, kinds)]
    return jobs + [planned_controls(cfg, run) for run in claimed_controls(cfg, parts)]


def make_plan(
    cfg: ScaleConfig,
    jobs: Sequence[PlannedJob],
    gpu: str | None = None,
    gpus: int = 1,
    records: Path = Path("results"),
) -> Plan:
    """Plans jobs, and sets beside them what finished ones took.

    Args:
        cfg: the settings.
        jobs: what to make, with all that it waits for (`chosen_jobs`).
        gpu: a card's name, `profile` or `measured`; None is `measured` where no GPU is asked for, else the profile of
            one at the scale's shapes, else `h100`.
        gpus: cards, or jobs side by side.
        records: folder with finished runs (`results` or `published`).

    Raises:
        UserError: the card is not known, or nothing was measured or profiled.
    """
    if gpus < (most := max(job.processes for job in jobs)):
        raise UserError(f"--gpus: {gpus} are fewer than the {most} of one training (processes)")
    used = used_seconds(jobs, cfg.scale, records)
    rates = _rates(cfg, jobs, gpu, records)
    seconds = {(job.kind, job.name): rates.seconds(job) for job in jobs}
    parallel = {(job.kind, job.name): seconds[job.kind, job.name] / job.processes for job in jobs}
    groups: dict[tuple[str, str], list[PlannedJob]] = {}
    for job in jobs:
        groups.setdefault((job.task, job.method), []).append(job)
    tasks = list(dict.fromkeys(task for task, _ in groups))
    lines = [_line(cfg, task, method, found, rates, used) for (task, method), found in groups.items()]
    lines += [_line(cfg, task, "all", [job for job in jobs if job.task == task], rates, used) for task in tasks]
    lines.append(_line(cfg, "all", "all", jobs, rates, used))
    data = [task_of(cfg, task).data for job in jobs for task in job.work]
    shown = {job.task for job in jobs if job.kind == "evaluate"}
    search = [job for task in cfg.tasks if task in shown for job in planned_search(cfg, task)]
    return Plan(
        cfg.scale,
        rates.source,
        gpus,
        rates.card,
        None if rates.memory is None else rates.memory / 1e9,
        tuple(lines),
        tuple(_row(job, rates, used) for job in jobs),
        wall_seconds(jobs, parallel, gpus) / 86400,
        critical_path(jobs, parallel) / 86400,
        sum(DATA_BYTES.get(name, 0.0) for name in {each.root: each.name for each in data}.values()) / 1e9,
        (len(search), sum(map(rates.seconds, search)) / _HOUR),
    )


def _rates(cfg: ScaleConfig, jobs: Sequence[PlannedJob], gpu: str | None, records: Path) -> Rates:
    """Those that are asked for, or that `make_plan` takes by itself."""
    on_gpu = cfg.device == "cuda"
    tasks = sorted({task for job in jobs for task in job.work})
    if gpu == "measured" or (gpu is None and not on_gpu):
        return _measured(cfg, jobs, records)
    if gpu not in (None, "profile"):
        return card_rates(str(gpu))
    found = profiled_rates(cfg, tasks, on_gpu)
    if found is None and gpu is not None:
        raise UserError(
            f"--gpu profile: {PROFILES} has no full model of every task ({', '.join(tasks)}) at the shapes of scale "
            f"'{cfg.scale}'{' on a GPU' if on_gpu else ''}; `snakemake profile` makes them, or name a card (--gpu h100)"
        )
    return found or card_rates("h100")


def _measured(cfg: ScaleConfig, jobs: Sequence[PlannedJob], records: Path) -> Rates:
    """Rates of finished jobs of the scale, the planned ones or others; of the published ones if there are too few."""
    measured = chosen_jobs(cfg)
    for folder in (records, Path("published")):
        used = used_seconds(measured, cfg.scale, folder)
        rates = measured_rates(measured, used, f"{folder}/{cfg.scale}")
        if all(rates.knows(job) for job in jobs):
            return rates
    raise UserError(
        f"--gpu measured: neither {records}/{cfg.scale} nor published/{cfg.scale} has a finished training and"
        " evaluation without pruning of every task; name a card, such as --gpu h100"
    )


def _line(
    cfg: ScaleConfig,
    task: str,
    method: str,
    jobs: Sequence[PlannedJob],
    rates: Rates,
    used: Mapping[tuple[str, str], float],
) -> PlanLine:
    trainings = [job for job in jobs if job.kind == "train"]
    hours = sum(map(rates.seconds, jobs)) / _HOUR
    ends = [rates.interval(job) for job in jobs]
    done = [job for job in jobs if (job.kind, job.name) in used]
    return PlanLine(
        task,
        method,
        len(trainings),
        len(jobs) - len(trainings),
        sum(job.steps for job in trainings),
        sum(job.images for job in trainings),
        hours,
        sum(low for low, _ in ends) / _HOUR,
        sum(high for _, high in ends) / _HOUR,
        max((job.memory for job in jobs), default=0.0) / 1e9,
        max((job.least for job in jobs), default=0.0) / 1e9,
        max((_host_mb(cfg, job) for job in jobs), default=0.0) / 1e3,
        sum(job.disk for job in jobs) / 1e9,
        None if rates.watts is None else hours * rates.watts / 1e3,
        sum(map(rates.seconds, done)) / _HOUR,
        sum(used[job.kind, job.name] for job in done) / _HOUR,
    )


def _host_mb(cfg: ScaleConfig, job: PlannedJob) -> int:
    """What the job asks for; its kind reads the key of it from the name."""
    if job.task == JOINT:
        return JOBS["train_joint"].resources(cfg, JointRun.parse(cfg.scale, job.name)).memory_mb
    of_task: dict[str, Any] = {"endpoint": job.task, "probe": ProbeKey(job.task, job.name.partition(" ")[0])}
    key = of_task[job.kind] if job.kind in of_task else Run.parse(cfg.scale, job.name)
    return JOBS[job.kind].resources(cfg, key).memory_mb


def _row(job: PlannedJob, rates: Rates, used: Mapping[tuple[str, str], float]) -> Mapping[str, Any]:
    took = used.get((job.kind, job.name))
    return {
        "job": job.kind,
        "run": job.name,
        "task": job.task,
        "method": job.method,
        "variant": job.variant,
        "steps": job.steps,
        "images": round(job.images),
        "operations": sum(job.work.values()),
        "planned_hours": rates.seconds(job) / _HOUR,
        "used_hours": None if took is None else took / _HOUR,
        "gpu_memory_gb": job.memory / 1e9,
        "disk_gb": job.disk / 1e9,
    }


def as_json(plan: Plan) -> str:
    """The whole plan."""
    return json.dumps(asdict(plan), indent=1)


def as_csv(plan: Plan) -> str:
    """One line for each job."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(plan.jobs[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(plan.jobs)
    return text.getvalue()


def as_text(plan: Plan, cfg: ScaleConfig) -> str:
    """What a person reads: methods, tasks and all, then what it means for time, disk and memory."""
    unit = "GPU-hours" if plan.card else "job-hours"
    header = ("task", "method", "trainings", "steps", unit, "interval", "GPU GB", "host GB", "disk GB", "used h")
    rows = [header, *(_shown(line) for line in plan.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    total = plan.total
    lines += ["", f"Rates: {plan.source}."]
    if plan.card_gb is not None:
        tasks = dict.fromkeys(line.task for line in plan.lines if line.task in UTILISATION)
        lines += [
            f"  {task}: {UTILISATION[task].share:.1%} of an H100's peak; {UTILISATION[task].source}" for task in tasks
        ]
    what = "GPU" if plan.card else "place"
    lines.append(
        f"Time on {plan.gpus} {what}{'' if plan.gpus == 1 else 's'}: {_days(plan.wall_days)}; "
        f"no number of them makes it shorter than {_days(plan.critical_days)}."
    )
    if total.energy_kwh is not None:
        lines.append(f"Energy of the cards at full power: {total.energy_kwh:,.0f} kWh.")
    own = "; bring the data yourself" if any(task.data.name not in PREPARED for task in cfg.tasks.values()) else ""
    lines.append(f"Disk: {total.disk_gb:,.1f} GB of weights and resume states, {plan.data_gb:,.1f} GB of data{own}.")
    trainings, hours = plan.search
    lines.append(
        f"Not counted: the search of methods' own settings (`tap tune`) in these tasks, {trainings} trainings, "
        f"{hours:,.{2 if hours < 10 else 0}f} {unit}."
    )
    if plan.card_gb is not None:
        lines += [
            _of_memory(cfg, line, plan.card_gb)
            for line in plan.lines
            if line.method != "all" and line.memory_gb > plan.card_gb
        ]
    if total.used:
        lines.append(
            f"Of the finished jobs: planned {total.planned_of_used:,.2f} h, used {total.used:,.2f} h "
            f"(x{total.planned_of_used / total.used:.2f})."
        )
    return "\n".join(lines)


def _of_memory(cfg: ScaleConfig, line: PlanLine, card_gb: float) -> str:
    """What it means that a batch needs more memory than a card has."""
    processes = cfg.processes_of(None if line.task == JOINT else line.task)
    needs = f"{line.task}/{line.method} needs {line.memory_gb:,.0f} GB in each of {processes} process(es)"
    enough = f"at least {-int(-line.memory_gb * processes // card_gb)} hold its batch"
    if line.least_gb > card_gb:
        return f"TOO LARGE: {needs}, a card has {card_gb:,.0f} GB; {enough}, or set train.micro_batch"
    return f"In parts: {needs}, a card has {card_gb:,.0f} GB, so that images pass in micro-batches; {enough} at once"


def _shown(line: PlanLine) -> tuple[str, ...]:
    digits = 2 if line.hours < 10 else 0
    return (
        line.task,
        line.method,
        str(line.trainings),
        f"{line.steps:,}",
        f"{line.hours:,.{digits}f}",
        f"{line.hours_low:,.{digits}f} to {line.hours_high:,.{digits}f}",
        f"{line.memory_gb:,.1f}",
        f"{line.host_gb:,.0f}",
        f"{line.disk_gb:,.1f}",
        f"{line.used:,.2f}" if line.used else "--",
    )


def _days(days: float) -> str:
    return f"{days:,.1f} days" if days >= 2 else f"{days * 24:,.1f} hours"


def used_by_job(plan: Plan) -> Iterable[str]:
    """Planned beside used of every finished job."""
    for row in plan.jobs:
        if row["used_hours"] is not None:
            ratio = row["planned_hours"] / row["used_hours"] if row["used_hours"] else 0.0
            hours = f"planned {row['planned_hours']:.3f} h, used {row['used_hours']:.3f} h"
            yield f"{row['job']} {row['run']}: {hours} (x{ratio:.2f})"
