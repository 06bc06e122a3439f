# Settings, paths and parameters that the rules share. Rules get values handed one by one, never the settings as a whole.
import json
import os
import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from tap.config import job_json, job_spec, load_params, load_scale, runs_of_table
from tap.config.jobs import (
    dense_run,
    endpoint_file,
    endpoint_specs,
    has_teacher,
    pretraining_run,
    probe_folder,
    probe_parameters,
    probed_runs,
    probes_of,
    start_run,
)
from tap.config.methods import DENSE, METHODS, PRETRAINING, TAP
from tap.errors import UserError
from tap.paper.figures.names import FIGURES
from tap.paper.tables.names import OF_PROBES, OF_RATES, OF_SETTINGS
from tap.provenance import behind, orphans
from tap.provenance.chain import WORKFLOW_LOCK, Chain, Notes
from tap.provenance.locks import hold_lock
from tap.runs import Run
from tap.task_facts import TASKS

# `tap` and `torchrun` of the environment that runs Snakemake, whether or not it is activated; jobs end with Snakemake.
shell.prefix(
    f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH "
    f"{orphans.VARIABLE}={os.getpid()}; "
)


def read_settings():
    """The scale's settings, and whether it is the one that params.yaml names."""
    unknown = sorted(set(config) - {"scale"})
    if unknown:
        raise WorkflowError(
            f"--config {unknown[0]}=...: unknown; only 'scale' can be set here, the rest in params.yaml"
        )
    try:
        settings = load_scale(config.get("scale"))
        return settings, settings.scale == load_params().scale
    except UserError as error:
        # Its message alone: a WorkflowError would add the places in this file, which a person cannot mend.
        sys.exit(f"Error: {error}")


CFG, IS_DEFAULT_SCALE = read_settings()
SCALE = CFG.scale
config["scale"] = SCALE  # read by the captions of the report
RUN_FOLDER = f"results/{SCALE}/runs/{{task}}/{{method}}/r{{rate}}/{{variant}}/s{{seed}}"
LOG_FOLDER = f".tap/logs/{SCALE}"
PREPARED_ROOTS = {
    task.data.root: name
    for name, task in CFG.tasks.items()
    if task.data.name in behind.PREPARED
}
PRUNING_METHODS = [method for method in METHODS if method != DENSE]
TRAINING_GPUS = CFG.processes if CFG.device == "cuda" else 0
EVALUATION_GPUS = 1 if CFG.device == "cuda" else 0
TABLES = {f"tab_{task}": task for task in CFG.tasks}
BUILT_TASKS = [task for task in CFG.tasks if behind.is_built(task)]
TABLE_FILES = [".tex", ".csv", ".compare.csv", ".compare.md"]
FIGURE_FILES = [".pdf", ".png", ".csv", ".caption.md", ".record.json"]
PROBE_FOLDER = f"results/{SCALE}/probes/{{task}}/{{kind}}"
TIDY_PROBES = [f"results/{SCALE}/tidy_probes_{task}.csv" for task in BUILT_TASKS]


wildcard_constraints:
    task="|".join(CFG.tasks),
    method="|".join(METHODS),
    rate=r"\d\.\d\d",
    variant="[a-z0-9_-]+",
    seed=r"\d+",
    table="|".join(TABLES),
    kind="layers|recovery",


def say_which_data_are_missing():
    """Names a person's own data that are not there, in a dry run too: which job will miss them is known later."""
    for name, task in CFG.tasks.items():
        own = task.data.root not in PREPARED_ROOTS
        if own and not Path(task.data.root).expanduser().is_dir():
            print(
                f"tasks.{name}.data.root: {task.data.root} is not there; every job of {name} will fail until the data "
                f"are, or the setting names where they are (`tap data check {name}`)",
                file=sys.stderr,
            )


if workflow.is_main_process:
    say_which_data_are_missing()


def hold_workflow_lock():
    """Refuses a second workflow in this folder. Unlike Snakemake's own lock, a killed workflow leaves none behind."""
    global HELD_LOCK
    try:
        HELD_LOCK = hold_lock(WORKFLOW_LOCK)
    except UserError as error:
        raise WorkflowError(str(error))
    if HELD_LOCK is None:
        raise WorkflowError(
            "another workflow is running in this folder; wait for it, or stop it"
        )


def check_chain():
    """Compares records and disk before anything is planned, and says what is wrong; jobs' own processes only read."""
    if not workflow.is_main_process:
        return Notes(None)
    try:
        chain = Chain(CFG)
    except UserError as error:
        raise WorkflowError(str(error))
    if chain.wrong:
        print(chain.summary(), file=sys.stderr)
    return Notes(chain)


NOTES = check_chain()


def remade(rule):
    """The input that repeats a rule's jobs when their files are missing or are not what their records say."""

    def note(wildcards):
        outputs = getattr(rules, rule).output
        return NOTES.of([str(output).format(**wildcards) for output in outputs])

    return note


def run_of(wildcards):
    """The run whose folder a rule's output is in."""
    return Run(
        SCALE,
        wildcards.task,
        wildcards.method,
        float(wildcards.rate),
        wildcards.variant,
        int(wildcards.seed),
    )


def run_id(wildcards):
    return run_of(wildcards).id


def checked(function):
    """Bad input ends the workflow with its message alone."""

    def call(wildcards):
        try:
            return function(wildcards)
        except UserError as error:
            raise WorkflowError(str(error))

    return call


@checked
def training_settings(wildcards):
    """What the training reads of the settings, as JSON: an edit of anything else repeats nothing."""
    return job_json(job_spec(CFG, run_of(wildcards)), "train")


@checked
def evaluation_settings(wildcards):
    """What the evaluation reads of the settings, as JSON."""
    return job_json(job_spec(CFG, run_of(wildcards)), "evaluate")


@checked
def training_code(wildcards):
    return behind.code_of_training(wildcards.task, wildcards.method)


@checked
def evaluation_code(wildcards):
    return behind.code_of_evaluation(wildcards.task, wildcards.method)


@checked
def picture_code(wildcards):
    return behind.code_of_picture(wildcards.task, wildcards.method)


def data_of_task(task):
    """The file that says that a task's data are there, whole and right."""
    data = CFG.tasks[task].data
    if data.name in behind.PREPARED:
        return f"{data.root}/manifest.json"
    return f"results/{SCALE}/data/{task}.json"


def data_of(wildcards):
    return data_of_task(wildcards.task)


def start_of(wildcards):
    """The weights that a training starts from; none for a random encoder."""
    settings = CFG.tasks[wildcards.task]
    run = run_of(wildcards)
    start_from = job_spec(CFG, run).start_from
    if start_from == "scratch":
        return []
    if start_from == "dense":
        return str(start_run(run).folder / "model.safetensors")
    if settings.pretrain.weights is not None:
        weights = Path(settings.pretrain.weights).expanduser()
        if not weights.is_file():
            raise WorkflowError(
                f"tasks.{wildcards.task}.pretrain.weights: {weights} is not there; put the file there, or name another"
            )
        return str(weights)
    return str(pretraining_run(CFG, wildcards.task).folder / "model.safetensors")


def endpoint_of(wildcards):
    """The file with the endpoint of the common recovery, for the runs that read one."""
    path = endpoint_file(job_spec(CFG, run_of(wildcards)))
    return [] if path is None else str(path)


def teacher_of(wildcards):
    """The no-pruning weights of the seed, for the methods that learn from them."""
    run = run_of(wildcards)
    if not has_teacher(job_spec(CFG, run)):
        return []
    return str(dense_run(CFG, run.task, run.seed).folder / "model.safetensors")


def endpoint_settings(wildcards):
    return [job_json(spec, "evaluate") for spec in endpoint_specs(CFG, wildcards.task)]


def endpoint_code(wildcards):
    methods = sorted({spec.method for spec in endpoint_specs(CFG, wildcards.task)})
    return behind.code_of_endpoint(wildcards.task, methods)


def probed_weights(wildcards):
    runs = probed_runs(CFG, wildcards.task, wildcards.kind)
    return [str(run.folder / "model.safetensors") for run in runs]


def probed_endpoint(wildcards):
    """Dense tasks read at the endpoint that their recovery probe prefers."""
    if not TASKS[wildcards.task].dense or wildcards.kind == "recovery":
        return []
    return str(probe_folder(SCALE, wildcards.task, "recovery") / "values.csv")


@checked
def probe_settings(wildcards):
    return json.dumps(probe_parameters(CFG, wildcards.task, wildcards.kind))


@checked
def probe_code(wildcards):
    return behind.code_of_probe(wildcards.task)


def probe_results(task):
    """What the probes of a task measured."""
    return [
        str(probe_folder(SCALE, task, kind) / name)
        for kind in probes_of(task)
        for name in ("values.csv", "per_sample.npz", "probe.json")
    ]


def training_threads(wildcards):
    """Those of the training itself (one, so that two small ones share two cores), and one for each loading process."""
    settings = CFG.tasks[wildcards.task]
    return job_spec(CFG, run_of(wildcards)).train.threads + settings.data.workers


def evaluation_threads(wildcards):
    """All, so that nothing disturbs the throughput; the smoke scale's means nothing, and side by side they end sooner."""
    return 1 if SCALE == "smoke" else workflow.cores or 1


def results_of(task):
    """What the runs of a task's tables measured."""
    return [
        str(run.folder / name)
        for run in runs_of_table(CFG, task)
        for name in ("metrics.json", "per_sample.npz")
    ]


def all_results():
    """Every table and picture that the scale can make; tables where a reader looks if it is the scale of params.yaml."""
    folder = "paper_tables" if IS_DEFAULT_SCALE else f"results/{SCALE}/tables"
    tables = [f"tab_{task}" for task in BUILT_TASKS] + [
        *OF_RATES,
        *OF_SETTINGS,
        *OF_PROBES,
    ]
    figures = "paper_figures" if IS_DEFAULT_SCALE else f"results/{SCALE}/figures"
    return [
        *(f"{folder}/{table}{suffix}" for table in tables for suffix in TABLE_FILES),
        *files_of_figures(figures, FIGURE_FILES),
        *(str(run.folder / "picture.png") for run in pictured_runs()),
        *(f"results/{SCALE}/headline.{suffix}" for suffix in ("json", "csv")),
    ]


def pictured_runs():
    """The runs of dense tasks that a person looks at: no pruning and TAP-J at the main rate, first seed."""
    tasks = [task for task in CFG.tasks if TASKS[task].drawing]
    return [
        Run(SCALE, task, method, rate, seed=CFG.tasks[task].seeds[0])
        for task in tasks
        for method, rate in ((DENSE, 1.0), (TAP, CFG.main_rate))
    ]


def files_of_tables(folder, tables):
    """All files of some tables, with their records."""
    return [
        f"{folder}/{table}{suffix}"
        for table in tables
        for suffix in (*TABLE_FILES, ".record.json")
    ]


def files_of_figures(folder, suffixes):
    """Some files of all figures."""
    return [f"{folder}/{figure}{suffix}" for figure in FIGURES for suffix in suffixes]


def reported_of(tables):
    """The printed tables that stand beside some tables."""
    names = [table.removeprefix("tab_").replace("_", "-") for table in tables]
    return [f"tap/paper/reported/{name}.yaml" for name in names]
