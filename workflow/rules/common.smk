# What the rules share: the settings, and functions by which a rule takes what it needs from its job (tap/jobs).
import os
import re
import shlex
import sys
from difflib import get_close_matches
from pathlib import Path

from snakemake.exceptions import WorkflowError

from tap.config import load_params, load_scale
from tap.config.methods import DENSE, FROZEN, METHODS, PRETRAINING
from tap.engine.gpu_pool import visible_cards
from tap.errors import UserError
from tap.jobs import warm
from tap.jobs.kinds.figure import FIGURE_FILES, drawn
from tap.jobs.kinds.preflight import REPORT, comes_first
from tap.jobs.kinds.prepare import prepared_folders
from tap.jobs.kinds.table import TABLE_FILES, tables_of
from tap.jobs.kinds.tune import among_results
from tap.jobs.registry import JOBS
from tap.jobs.slurm_partitions import refuse_unknown_partitions
from tap.jobs.staleness import Today
from tap.jobs.terminal import show_in_lines
from tap.paper.figures.names import GROUPS, figures_of
from tap.paper.listing import refuse_file
from tap.paper.tables.names import groups
from tap.plan.joint import joint_tasks
from tap.plan.runs import pictured_runs
from tap.plan.shown_runs import tasks_shown
from tap.plan.tuning import SEARCHES
from tap.provenance import orphans
from tap.provenance.chain import WORKFLOW_LOCK, Chain, Notes
from tap.provenance.equivalence import REPLAYED, code_as_recorded
from tap.provenance.files import hash_files
from tap.provenance.locks import hold_lock
from tap.provenance.publish import published_folder


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
# `tap` and `torchrun` of the environment that runs Snakemake, whether or not it is activated; jobs end with Snakemake,
# and on a CPU they start from one process that has imported the libraries (CUDA does not outlive a fork).
ON_CPU = CFG.device == "cpu" or (CFG.device == "auto" and not visible_cards())
shell.prefix(
    # A job that is asked to end (a time limit) is waited for, and what it says is still written down.
    "set -euo pipefail; trap : TERM; tee() {{ (trap '' TERM; exec tee \"$@\"); }}; "
    f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH "
    f"{orphans.VARIABLE}={os.getpid()}"
    + (
        f" {warm.VARIABLE}={shlex.quote(warm.socket_of(os.getpid()))}"
        f" {warm.TASKS_VARIABLE}={','.join(CFG.tasks)}; "
        if ON_CPU
        else "; "
    )
)
SCALE = CFG.scale
config["scale"] = SCALE  # read by the captions of the report
LOGS = f".tap/logs/{SCALE}"
JOINT_TASKS = [task for method in FROZEN for task in joint_tasks(CFG, method)]
# Small tables and figures by what they are made from, each group with a job of its own.
TABLE_GROUPS = {
    name: tuple(tables)
    for name, tables in groups().items()
    if name != "runs" and tables
}
FIGURE_GROUPS = {name: figures_of(name) for name in dict.fromkeys(GROUPS.values())}
GROUPED = tuple(table for tables in TABLE_GROUPS.values() for table in tables)
ALL_TABLES, DRAWN = tuple(tables_of(CFG)), drawn(CFG)


wildcard_constraints:
    task="|".join(CFG.all_tasks),
    of=f"(further_|probes_|controls_)?({'|'.join(CFG.tasks)})",
    method="|".join(METHODS),
    rate=r"\d\.\d\d",
    variant="[a-z0-9_-]+",
    seed=r"\d+",
    table="|".join(f"tab_{task}" for task in CFG.tasks),
    kind="layers|recovery",
    search="|".join(SEARCHES),
    device=r"(cpu|gpu)-[a-z0-9-]+",
    shapes="smoke|desk|paper",
    root="|".join(map(re.escape, prepared_folders(CFG))) or "none",


def say_what_is_missing():
    """Names a person's own data and weights that are not there, in a dry run too: who will miss them is known later."""
    for name, task in CFG.tasks.items():
        own = task.data.root not in prepared_folders(CFG)
        if own and not Path(task.data.root).expanduser().is_dir():
            print(
                f"tasks.{name}.data.root: {task.data.root} is not there; every job of {name} will fail until the data "
                f"are, or the setting names where they are (`tap data check {name}`)",
                file=sys.stderr,
            )
    given = {name: task.pretrain.weights for name, task in CFG.tasks.items()}
    for path in dict.fromkeys(found for found in given.values() if found is not None):
        if not Path(path).expanduser().is_file():
            names = ", ".join(name for name, found in given.items() if found == path)
            print(
                f"tasks.<task>.pretrain.weights: {path} is not there; every training of {names} will miss it "
                "(docs/data.md says where it comes from)",
                file=sys.stderr,
            )


if workflow.is_main_process:
    say_what_is_missing()


def own_cores():
    """CPU cores that may be used here; 1 where jobs go to a cluster, whose profile says what its nodes have."""
    return workflow.resource_settings.cores or 1


def refuse_placeholders():
    """Ends before anything is submitted with what a profile leaves to its user."""
    defaults = workflow.resource_settings.default_resources
    left = [text for text in getattr(defaults, "args", ()) if "change-me" in str(text)]
    if left:
        names = ", ".join(str(text).partition("=")[0] for text in left)
        sys.exit(
            f"Error: default-resources of the profile: {names} still hold 'change-me'; put your cluster's names there"
        )


def asked_partitions():
    """What the profile, or the command line, says of partitions, by where it says so."""
    settings, name = workflow.resource_settings, "slurm_partition"
    defaults = [
        str(text).partition("=")
        for text in getattr(settings.default_resources, "args", ())
    ]
    asked = {
        f"default-resources of the profile: {name}": value.strip("'\"")
        for known, _, value in defaults
        if known == name
    }
    for rule, resources in settings.overwrite_resources.items():
        if name in resources:
            asked[f"set-resources of the profile: {rule}: {name}"] = str(
                getattr(resources[name], "raw", resources[name])
            ).strip("'\"")
    return asked


if workflow.is_main_process:
    refuse_placeholders()
    try:
        refuse_unknown_partitions(asked_partitions())
    except UserError as error:
        sys.exit(f"Error: {error}")
    show_in_lines(
        logger, [published_folder(SCALE), Path("results", SCALE)], own_cores()
    )


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
        chain = Chain(CFG, staleness=Today(CFG).staleness)
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


def makes(job, name):
    """The pattern of a file that a kind of job makes."""
    return JOBS[job].makes[name].replace("{scale}", SCALE)


def of(job, answer, key=None):
    """From wildcards to what a kind of job says of the one that makes their files; bad input ends in its message.

    A rule without wildcards may name the job by its key instead.
    """

    def ask(wildcards):
        try:
            known = JOBS[job].key(CFG, wildcards) if key is None else key
            return answer(JOBS[job], known)
        except UserError as error:
            raise WorkflowError(str(error))

    return ask


# What checks of data and trainings wait for; a new look at the same settings repeats none of them.
LOOKED = [ancient(REPORT.format(scale=SCALE))] if comes_first(CFG) else []


def of_all(tasks, pattern):
    """The pattern of a file that a job makes of each of several tasks."""
    return [pattern.replace("{task}", task) for task in tasks]


def reads(job, name, key=None):
    """The files that a job reads under a name."""
    return of(
        job, lambda kind, known: list(map(str, kind.reads(CFG, known)[name])), key
    )


def also_reads(job, key=None):
    """Files that a job reads where they are there, each with its hash: no inputs, so that none is made for it."""
    return of(
        job,
        lambda kind, key: [
            f"{path} {content}"
            for path, content in hash_files(kind.also_reads(CFG, key)).items()
        ],
        key,
    )


def spec(job, key=None):
    """What a job reads of the settings, as JSON: an edit of anything else repeats nothing."""
    return of(job, lambda kind, key: kind.planned(CFG, key), key)


def code(job, key=None):
    """The fingerprint of the code behind a job: its record's, where a replay has shown that today's does the same."""
    today = of(job, lambda kind, key: kind.code(CFG, key), key)

    def ask(wildcards):
        found, pattern = today(wildcards), makes(job, "record")
        patterns = of_all(JOINT_TASKS, pattern) if job == "train_joint" else [pattern]
        records = [Path(each.format(**dict(wildcards.items()))) for each in patterns]
        known = {code_as_recorded(record, found) for record in records}
        return known.pop() if len(known) == 1 else found

    return ask if job in REPLAYED else today


def argument(job):
    """What the command line calls a job by."""
    return of(job, lambda kind, key: kind.argument(key))


def threads(job):
    """CPU threads of a job; all, so that nothing disturbs a measurement of time, where it says none."""
    return of(job, lambda kind, key: kind.resources(CFG, key).threads or own_cores())


def takes(job, resource, key=None):
    """Another resource of a job."""
    return of(
        job, lambda kind, known: getattr(kind.resources(CFG, known), resource), key
    )


def made(job, key, *suffixes):
    """The files that a job makes, or those of some suffixes."""
    files = map(str, JOBS[job].made(CFG, key))
    return [file for file in files if not suffixes or file.endswith(suffixes)]


def all_results():
    """Every table and picture that the scale can make; tables where a reader looks if it is the scale of params.yaml."""
    # The document too; tables and figures without their records, which come with them.
    shown = (*ALL_TABLES, *DRAWN)
    files = (
        [
            *made("publish", shown, *FIGURE_FILES, *TABLE_FILES),
            "paper_tables/paper.html",
        ]
        if IS_DEFAULT_SCALE
        else [
            *made("table", ALL_TABLES, *TABLE_FILES),
            *made("figure", DRAWN),
            makes("paper_page", "html"),
        ]
    )
    return [
        *files,
        *(str(run.folder / "picture.png") for run in pictured_runs(CFG)),
        *of_all(tasks_shown(CFG), makes("kept_patches", "page")),
        *(makes("headline", suffix) for suffix in ("json", "csv")),
        *(str(JOBS["tune"].record(CFG, key)) for key in among_results(CFG)),
    ]


# All files of tables and figures, where a reader looks and where they are made.
SHOWN_FILES = JOBS["publish"].made(CFG, (*ALL_TABLES, *GROUPS, "paper", "paper_pdf"))
MADE_FILES = [
    *JOBS["table"].made(CFG, ALL_TABLES),
    *JOBS["figure"].made(CFG, tuple(GROUPS)),
    *(
        file
        for job in ("paper_page", "paper_pdf")
        for file in JOBS[job].made(CFG, None)
    ),
]


def refuse_unknown(wildcards):
    """Ends with the files of that name, or the nearest table or figure and all that there are."""
    target = Path(wildcards.unknown)
    try:
        refuse_file(target, MADE_FILES if target.parts[0] == "results" else SHOWN_FILES)
    except UserError as error:
        # Its message alone: Snakemake would put a WorkflowError into a frame of its own.
        sys.exit(f"Error: {error}")


def refuse_unknown_rule(wildcards):
    """Ends with the rules whose names are nearest."""
    near = get_close_matches(wildcards.unknown, [rule.name for rule in workflow.rules])
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "`snakemake --list` shows the rules"
    )
    sys.exit(
        f"Error: {wildcards.unknown}: there is no rule and no file of this name; {hint}"
    )
