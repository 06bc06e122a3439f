"""`tap ...`: what each workflow rule calls, and what a person calls by hand.

Commands only read their arguments and call one function; modules that take long to import are imported by the command
that needs them. A `UserError` is printed as it is, and the process exits with status 2.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import click
import typer
from rich.console import Console
from rich.syntax import Syntax
from typer.core import TyperGroup

import tap
from tap.config import generate as config_files
from tap.config import job_spec, load_params, load_scale, parse_job
from tap.config.jobs import Job, endpoint_specs, task_of
from tap.config.schema import JobSpec, ScaleConfig
from tap.errors import UserError
from tap.provenance import stages
from tap.provenance import verify as verification
from tap.provenance.behind import is_built
from tap.provenance.files import is_full, unwritable
from tap.provenance.finding import Kind
from tap.provenance.orphans import LAUNCHER, end_with_workflow
from tap.provenance.publish import figures_folder, published_folder, tables_folder
from tap.provenance.root_hash import root_hash
from tap.runs import SCALES, Run

app = typer.Typer(
    help="Task registers for token pruning in Vision Transformers: the paper as a workflow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Settings: what is in use, and whether it is right.", no_args_is_help=True)
data_app = typer.Typer(help="Data: fetch and verify, or check your own.", no_args_is_help=True)
probe_app = typer.Typer(help="Controlled probes of the no-pruning checkpoints.", no_args_is_help=True)
paper_app = typer.Typer(help="The paper itself: its printed numbers.", no_args_is_help=True)


class TablesUnlessNamed(TyperGroup):
    """`tap publish tab_cls` is `tap publish tables tab_cls`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Takes the first argument for a table's name unless it is that of a command."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["tables", *args])


publish_app = typer.Typer(
    help="Put results where others find them: tables and figures by their names, a bundle, or all of a scale.",
    cls=TablesUnlessNamed,
    no_args_is_help=True,
)
app.add_typer(config_app, name="config")
app.add_typer(publish_app, name="publish")
app.add_typer(data_app, name="data")
app.add_typer(probe_app, name="probe")
app.add_typer(paper_app, name="paper")

dvc_app = typer.Typer(help="DVC: the stages of dvc.yaml.", no_args_is_help=True)
app.add_typer(dvc_app, name="dvc")

ScaleOption = Annotated[
    str | None, typer.Option(help="smoke, desk or paper; the one that params.yaml names if not given")
]
RunArgument = Annotated[str, typer.Argument(help="run, such as cls/tap/r0.50/main/s0", metavar="RUN")]
SpecOption = Annotated[
    str | None, typer.Option(help="settings of the job as JSON; those of params.yaml if not given", metavar="JSON")
]
TaskArgument = Annotated[str, typer.Argument(help="cls, seg or det", metavar="TASK")]


def main() -> None:
    """Entry point of the `tap` command."""
    gc.set_threshold(50_000)  # imports make a million objects and no garbage; at 700 they take a tenth longer
    try:
        app()
    except UserError as error:
        _end_with(error)
    except OSError as error:
        if not is_full(error):
            raise
        _end_with(unwritable(error.filename or "a file", error))


def _end_with(error: UserError) -> NoReturn:
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"Error: {error}")
    sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tap {tap.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    end_with_workflow()


@config_app.command("show")
def config_show(
    scale: ScaleOption = None,
    run: Annotated[str | None, typer.Option(help="only the settings of this run")] = None,
) -> None:
    """Print the settings in use, after params.yaml."""
    import yaml

    cfg = load_scale(scale)
    shown: ScaleConfig | JobSpec = cfg if run is None else job_spec(cfg, Run.parse(cfg.scale, run))
    text = yaml.safe_dump(shown.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=100)
    if sys.stdout.isatty():
        Console().print(Syntax(text, "yaml", background_color="default"))
    else:
        print(text, end="")


@config_app.command("check")
def config_check() -> None:
    """Check params.yaml and the settings of every scale."""
    for scale in SCALES:
        cfg = load_scale(scale)
        print(f"{scale}: right ({', '.join(cfg.tasks)})")


@config_app.command("generate")
def config_generate() -> None:
    """Write the schemas and the page of all settings anew."""
    for path in config_files.generate():
        print(path)


@data_app.command("prepare")
def data_prepare(
    task: TaskArgument,
    scale: ScaleOption = None,
    source: Annotated[Path | None, typer.Option(help="folder that holds the original files")] = None,
) -> None:
    """Fetch and verify the data of a task; safe to repeat, and goes on after an interruption."""
    from tap.tasks.preparation import prepare_data

    print(prepare_data(task_of(load_scale(scale), task).data, source))


@data_app.command("check")
def data_check(
    task: TaskArgument,
    scale: ScaleOption = None,
    report: Annotated[Path | None, typer.Option(help="file to write the findings to, if nothing is wrong")] = None,
    decode_all: Annotated[bool, typer.Option(help="decode every image (hours for ImageNet)")] = False,
) -> None:
    """Look at your own data: counts, classes, files that cannot be read."""
    from tap.tasks.preparation import check_data

    found = check_data(task_of(load_scale(scale), task).data, report, decode_all)
    print(found.render())
    if not found.ok:
        raise typer.Exit(1)


@dvc_app.command("generate")
def dvc_generate() -> None:
    """Write dvc.yaml anew."""
    print(stages.generate())


@dvc_app.command("collect")
def dvc_collect(
    stage: Annotated[str, typer.Argument(help="stage of dvc.yaml", metavar="STAGE")], scale: ScaleOption = None
) -> None:
    """Put the weights of a stage where DVC keeps them."""
    from tap.provenance.checkpoints import collect

    print(f"{len(collect(load_scale(scale), stages.stage_named(stage)))} checkpoints of stage {stage}")


@app.command()
def train(run: RunArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
    """Train a run; the same command goes on where a killed one stopped."""
    cfg = load_scale(scale)
    job = _job("train", cfg, run, spec)
    if cfg.processes > 1 and "WORLD_SIZE" not in os.environ:
        launcher = ["torchrun", "--standalone", f"--nproc-per-node={cfg.processes}", "-m", "tap.cli"]
        os.environ[LAUNCHER] = str(os.getpid())  # which stays its number
        os.execvp(launcher[0], [*launcher, *sys.argv[1:]])
    from tap.engine.job import run_training

    run_training(job)


@app.command()
def evaluate(run: RunArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
    """Evaluate and profile a trained run."""
    job = _job("evaluate", load_scale(scale), run, spec)
    from tap.studies.evaluation import run_evaluation

    run_evaluation(job)


@app.command()
def picture(run: RunArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
    """Draw what a trained run of a dense task predicts and keeps on a few validation images."""
    job = _job("evaluate", load_scale(scale), run, spec)
    from tap.studies.picture import run_picture

    print(run_picture(job))


@app.command()
def endpoint(task: TaskArgument, scale: ScaleOption = None) -> None:
    """Choose the endpoint of the common recovery of a dense task on its calibration split."""
    specs = endpoint_specs(load_scale(scale), task)
    from tap.studies.endpoint import run_endpoint

    print(run_endpoint(specs))


@probe_app.command("layers")
def probe_layers(task: TaskArgument, scale: ScaleOption = None) -> None:
    """Prune each eligible block in turn by each criterion, without training."""
    from tap.studies.probes import run_layer_probe

    print(run_layer_probe(load_scale(scale), task))


@probe_app.command("recovery")
def probe_recovery(task: TaskArgument, scale: ScaleOption = None) -> None:
    """Compare full offset and stand-in alone at each eligible block of a dense task, over the seeds."""
    from tap.studies.probes import run_recovery_probe

    print(run_recovery_probe(load_scale(scale), task))


@probe_app.command("gather")
def probe_gather(task: TaskArgument, scale: ScaleOption = None) -> None:
    """Gather what the probes of a task measured into one tidy table."""
    from tap.paper.tidy_probes import write_tidy_probes

    print(write_tidy_probes(load_scale(scale).scale, task))


@app.command()
def gather(
    task: TaskArgument,
    scale: ScaleOption = None,
    out: Annotated[
        Path | None, typer.Option(help="file to write; results/<scale>/tidy_<task>.csv if not given")
    ] = None,
) -> None:
    """Gather what the runs of a task measured into one tidy table."""
    from tap.paper.tidy import tidy_path, write_tidy

    name = load_scale(scale).scale
    print(write_tidy(name, task, out or tidy_path(name, task)))


@app.command()
def table(
    labels: Annotated[list[str], typer.Argument(help="tables, such as tab_cls", metavar="LABEL...")],
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="folder to write to; results/<scale>/tables if not given")] = None,
) -> None:
    """Build tables of the paper from the runs, each with its comparison."""
    from tap.paper.tables.registry import build_table

    name = load_scale(scale).scale
    for label in labels:
        for path in build_table(label, name, out or tables_folder(name)):
            print(path)


@app.command()
def audit(scale: ScaleOption = None) -> None:
    """Give every claim of the paper a verdict: JSON, Markdown, and a page with the way back from each number."""
    from tap.paper.audit.job import run_audit
    from tap.paper.audit.outcome import Verdict

    found, paths = run_audit(load_scale(scale).scale)
    print("\n".join(map(str, paths)))
    print(", ".join(f"{found.count(verdict)} {verdict}" for verdict in Verdict))


@app.command()
def crate(
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="folder to write; crates/<scale> if not given")] = None,
    weights: Annotated[bool, typer.Option(help="include the trained weights")] = False,
) -> None:
    """Pack a finished scale as an RO-Crate: workflow, results, tables, and who made what."""
    from tap.paper.crate import write_crate

    name = load_scale(scale).scale
    print(write_crate(name, out or Path("crates") / name, weights=weights))


@paper_app.command("check")
def paper_check(
    form: Annotated[str, typer.Option("--format", help="text, markdown or json")] = "text",
    everything: Annotated[bool, typer.Option("--all", help="agreement as well, not disagreement alone")] = False,
) -> None:
    """Recompute what follows from what within the paper; disagreement is a finding, not a failure."""
    from tap.paper.consistency.report import render

    print(render(form, everything), end="")


@app.command()
def headline(scale: ScaleOption = None) -> None:
    """Write the numbers that stand for a scale, for `dvc metrics` and `dvc plots`."""
    from tap.paper.headline import write_headline

    cfg = load_scale(scale)
    for path in write_headline(cfg.scale, [task for task in cfg.tasks if is_built(task)]):
        print(path)


@app.command()
def figure(
    names: Annotated[list[str], typer.Argument(help="figures, such as fig_insight", metavar="NAME...")],
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="folder to write to; results/<scale>/figures if not given")] = None,
) -> None:
    """Draw figures of the paper from the runs, as PDF and PNG, with the CSV behind them."""
    from tap.paper.figures.registry import build_figure

    scale_name = load_scale(scale).scale
    for name in names:
        for path in build_figure(name, scale_name, out or figures_folder(scale_name)):
            print(path)


@publish_app.command("tables")
def publish_tables(
    names: Annotated[list[str], typer.Argument(help="such as tab_cls or fig_insight", metavar="NAME...")],
    scale: ScaleOption = None,
) -> None:
    """Copy tables to paper_tables and figures to paper_figures, with their records."""
    from tap.provenance import publish as publishing

    for name in names:
        for path in publishing.publish(name, load_scale(scale).scale):
            print(path)


@publish_app.command("bundle")
def publish_bundle(
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="archive to write; bundles/<scale>.tar.gz if not given")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="weights of all runs, not one seed of each method of the main tables")
    ] = False,
    limit_mb: Annotated[float, typer.Option(help="megabytes that the archive must not exceed")] = 60.0,
) -> None:
    """Pack results and weights into one archive with its sha256, for `tap restore --bundle` in a clone."""
    from tap.provenance.bundle import write_bundle

    print(write_bundle(load_scale(scale), out, everything, limit_mb))


@app.command()
def verify(
    targets: Annotated[
        list[Path] | None, typer.Argument(help="files to start from; all results of the scale if none is given")
    ] = None,
    scale: ScaleOption = None,
    allow: Annotated[
        list[Kind] | None, typer.Option(help="kind of finding to let pass; may be given several times")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="name every file, where those of one kind and folder share a line otherwise")
    ] = False,
    task: Annotated[
        str | None, typer.Option(help="keep the list of verified files as the one of this task's tables")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="the committed results in published/<scale>; missing and stale pass")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="also make all values anew from what they rest on, some images from weights")
    ] = False,
    images: Annotated[int, typer.Option(min=1, help="with --deep: images of each run to evaluate anew")] = 64,
    seed: Annotated[
        int | None, typer.Option(min=0, help="with --deep: which images; drawn if not given, and printed")
    ] = None,
) -> None:
    """Walk from results back to the data and compare every file with its record; with --deep every value, too."""
    cfg = load_scale(scale)
    if task is not None:
        print(verification.write_verified(cfg, task, targets or ()))
        return
    if deep and targets:
        raise UserError("--deep: looks at all results of the scale; name no files")
    passed = {*(allow or ()), *((Kind.MISSING, Kind.STALE) if published else ())}
    found = verification.verify(cfg, targets or (), results=published_folder(cfg.scale) if published else None)
    if not deep:
        verification.require(found, passed, everything)
    else:
        from tap.paper.deep.command import run_deep_verification

        run_deep_verification(cfg, found, passed, images, seed, everything)
    print(found.summary())
    print(f"root hash of scale {cfg.scale}: {root_hash(found.ledger)}")


@app.command()
def remake(
    targets: Annotated[list[str] | None, typer.Argument(help="files or rules; all results if none is given")] = None,
    scale: ScaleOption = None,
) -> None:
    """Make anew what is missing or unsound behind some targets, and nothing else."""
    from tap.provenance.remake import remake as make_again

    if (count := make_again(load_scale(scale), targets or ())) > 0:
        print(f"{count} files made again")


@app.command()
def restore(
    scale: ScaleOption = None,
    bundle: Annotated[Path | None, typer.Option(help="archive of `tap publish bundle` to unpack first")] = None,
) -> None:
    """Verify results that came from elsewhere, then have Snakemake take them for done; data are prepared if missing."""
    from tap.provenance import restore as restoring

    cfg = load_scale(scale)
    if bundle is not None:
        from tap.provenance.bundle import unpack_bundle

        print(f"{unpack_bundle(bundle, cfg)} files from {bundle}")
        _prepare_missing_data(cfg)
    print(restoring.restore(cfg))


@app.command()
def summary(scale: ScaleOption = None) -> None:
    """Say where the tables are, how full they are, and how they compare with the paper."""
    from tap.paper.summary import print_summary

    name = load_scale(scale).scale
    print_summary("paper_tables" if name == load_params().scale else tables_folder(name))


def _prepare_missing_data(cfg: ScaleConfig) -> None:
    from tap.provenance.behind import PREPARED
    from tap.tasks.preparation import prepare_data

    for data in {task.data.root: task.data for task in cfg.tasks.values() if task.data.name in PREPARED}.values():
        if not (Path(data.root) / "record.json").is_file():
            print(prepare_data(data, None))


def _job(job: Job, cfg: ScaleConfig, run_id: str, spec: str | None) -> JobSpec:
    run = Run.parse(cfg.scale, run_id)
    return job_spec(cfg, run) if spec is None else parse_job(spec, job, cfg, run)


if __name__ == "__main__":
    main()
