"""`tap ...`: what each workflow rule calls, and what a person calls by hand.

Commands of jobs come from the jobs (`tap.jobs`); the others stand here. They only read their arguments and call one
function; modules that take long to import are imported by the command that needs them. A `UserError` is printed as it
is, and the process exits with status 2.
"""

from __future__ import annotations

import gc
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
from tap.config import load_params, load_scale
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.jobs.arguments import ScaleOption
from tap.jobs.kinds.prepare import prepared_folders
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.plan.runs import task_of
from tap.plan.specs import job_spec
from tap.provenance import stages
from tap.provenance.files import is_full, unwritable
from tap.provenance.finding import Kind
from tap.provenance.ledger import read_ledger
from tap.provenance.orphans import end_with_workflow
from tap.provenance.publish import published_folder, tables_folder
from tap.provenance.record import DATA_RECORD
from tap.runs import SCALES, Run

app = typer.Typer(
    help="Task registers for token pruning in Vision Transformers: the paper as a workflow.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class TablesUnlessNamed(TyperGroup):
    """`tap publish tab_cls` is `tap publish tables tab_cls`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Takes the first argument for a table's name unless it is that of a command."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["tables", *args])


groups = {
    "config": typer.Typer(help="Settings: what is in use, and whether it is right.", no_args_is_help=True),
    "data": typer.Typer(help="Data: fetch and verify, or check your own.", no_args_is_help=True),
    "probe": typer.Typer(help="Controlled probes of the no-pruning checkpoints.", no_args_is_help=True),
    "paper": typer.Typer(help="The paper itself: its printed numbers.", no_args_is_help=True),
    "publish": typer.Typer(
        help="Put results where others find them: tables and figures by their names, a bundle, or all of a scale.",
        cls=TablesUnlessNamed,
        no_args_is_help=True,
    ),
    "compare": typer.Typer(help="Results beside others.", no_args_is_help=True),
    "report": typer.Typer(help="Results to read.", no_args_is_help=True),
    "dvc": typer.Typer(help="DVC: the stages of dvc.yaml.", no_args_is_help=True),
}
for _name, _group in groups.items():
    app.add_typer(_group, name=_name)

for _job in JOBS.values():
    for _words, (_about, _call) in _job.commands().items():
        _group_name, _, _command = _words.rpartition(" ")
        groups.get(_group_name, app).command(_command, help=_about)(_call)


def run() -> None:
    """Runs the command that the arguments name, in this process."""
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


@groups["config"].command("show")
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


@groups["config"].command("check")
def config_check() -> None:
    """Check params.yaml and the settings of every scale."""
    for scale in SCALES:
        cfg = load_scale(scale)
        print(f"{scale}: right ({', '.join(cfg.tasks)})")


@groups["config"].command("set")
def config_set(
    assignments: Annotated[
        list[str], typer.Argument(help="such as keep_rates=0.3..0.9:0.2 or tasks.*.seeds=0..4", metavar="NAME=VALUE...")
    ],
    scale: ScaleOption = None,
) -> None:
    """Write values or ranges into params.yaml, for one scale; nothing is written if one of them is wrong."""
    from tap.config.assign import assign

    for name, value in assign(assignments, scale).items():
        print(f"{name} = {value}")


@groups["config"].command("generate")
def config_generate() -> None:
    """Write the schemas and the page of all settings anew."""
    for path in config_files.generate():
        print(path)


@groups["dvc"].command("generate")
def dvc_generate() -> None:
    """Write dvc.yaml anew."""
    from tap.jobs.pipeline import generate

    print(generate())


@groups["dvc"].command("collect")
def dvc_collect(
    stage: Annotated[str, typer.Argument(help="stage of dvc.yaml", metavar="STAGE")], scale: ScaleOption = None
) -> None:
    """Put the weights of a stage where DVC keeps them."""
    from tap.provenance.checkpoints import collect

    print(f"{len(collect(load_scale(scale), stages.stage_named(stage)))} checkpoints of stage {stage}")


@app.command()
def crate(
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="folder to write; crates/<scale> if not given")] = None,
    weights: Annotated[bool, typer.Option(help="include the trained weights")] = False,
    allow: Annotated[
        list[Kind] | None, typer.Option(help="kind of finding to let pass (missing, stale); may be given several times")
    ] = None,
) -> None:
    """Verify a finished scale and pack it as an RO-Crate: workflow, results, tables, and who made what."""
    from tap.paper.crate import write_crate

    cfg = load_scale(scale)
    out = out or Path("crates") / cfg.scale
    print(write_crate(cfg.scale, Today(cfg).staleness, out, weights=weights, allowed=allow or ()))


@groups["paper"].command("check")
def paper_check(
    form: Annotated[str, typer.Option("--format", help="text, markdown or json")] = "text",
    everything: Annotated[bool, typer.Option("--all", help="agreement as well, not disagreement alone")] = False,
) -> None:
    """Recompute what follows from what within the paper; disagreement is a finding, not a failure."""
    from tap.paper.consistency.report import render

    print(render(form, everything), end="")


@groups["publish"].command("results")
def publish_all_results(
    scale: ScaleOption = None,
    bundle: Annotated[
        Path | None, typer.Option(help="archive of `tap publish bundle` that is published with them; none: no weights")
    ] = None,
    address: Annotated[str, typer.Option(help="where others get the archive")] = "",
) -> None:
    """Copy a finished, verified scale to published/<scale>, with a page that says what it is."""
    from tap.provenance.publish_results import PublishedBundle, publish_results

    if address and bundle is None:
        raise UserError("--address: is that of an archive; name the archive too, with --bundle FILE")
    cfg = load_scale(scale)
    published = None if bundle is None else PublishedBundle.of(bundle, cfg, address)
    print(publish_results(cfg, Today(cfg).staleness, published))


@groups["publish"].command("bundle")
def publish_bundle(
    scale: ScaleOption = None,
    out: Annotated[Path | None, typer.Option(help="archive to write; bundles/<scale>.tar.gz if not given")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="weights of all runs, not one seed of each method of the main tables")
    ] = False,
    task: Annotated[
        list[str] | None, typer.Option(help="weights of this task's runs; may be given several times")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="of this method's; may be given several times")] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="of this seed's, not the first one's; several times too")
    ] = None,
    limit_mb: Annotated[float, typer.Option(help="megabytes that the archive must not exceed")] = 60.0,
) -> None:
    """Pack results and weights into one archive with its sha256, for `tap restore --bundle` in a clone."""
    from tap.provenance.bundle import write_bundle
    from tap.provenance.weight_selection import WeightSelection

    selection = WeightSelection(tuple(task or ()), tuple(method or ()), tuple(seed or ()), everything)
    cfg = load_scale(scale)
    print(write_bundle(cfg, Today(cfg).staleness, out, selection, limit_mb))


@app.command()
def plan(
    scale: ScaleOption = None,
    table: Annotated[str | None, typer.Option(help="only the runs of this table, such as tab_seg")] = None,
    claim: Annotated[str | None, typer.Option(help="the fewest runs that judge this claim")] = None,
    gpu: Annotated[
        str | None, typer.Option(help="h100, a100, rtx4090, profile (of this machine), or measured (finished jobs)")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="cards, or jobs side by side")] = 1,
    records: Annotated[Path, typer.Option(help="folder with finished runs to set beside")] = Path("results"),
    used: Annotated[bool, typer.Option("--used", help="planned beside used of every finished job")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="one line for each job")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="all of it")] = False,
) -> None:
    """Say what runs will cost before any starts: hours, memory, disk, energy; and what finished ones took."""
    from tap.jobs import planning

    cfg = load_scale(scale)
    made = planning.make_plan(cfg, planning.chosen_jobs(cfg, table, claim), gpu, gpus, records)
    if as_csv or as_json:
        print((planning.as_csv if as_csv else planning.as_json)(made).rstrip())
        return
    print(planning.as_text(made, cfg))
    if used:
        print("\n".join(planning.used_by_job(made)))


@app.command()
def recertify(
    records: Annotated[
        list[str] | None, typer.Argument(help="beginnings of names of records or folders; all if none is given")
    ] = None,
    scale: ScaleOption = None,
) -> None:
    """Show by replay that runs of earlier code are those of today's; what differs is named, and made again."""
    from tap.recertify.recertify import recertify as replay

    outcomes = replay(load_scale(scale), records or (), report=lambda line: print(line, file=sys.stderr))
    print("\n".join(map(str, outcomes)) if outcomes else "every training, evaluation and probe is of today's code")
    if outcomes:
        print(f"{sum(outcome.equal for outcome in outcomes)} of {len(outcomes)} equal")


@app.command()
def remake(
    targets: Annotated[list[str] | None, typer.Argument(help="files or rules; all results if none is given")] = None,
    scale: ScaleOption = None,
) -> None:
    """Make anew what is missing or unsound behind some targets, and nothing else."""
    from tap.provenance.remake import remake as make_again

    cfg = load_scale(scale)
    if (count := make_again(cfg, Today(cfg).staleness, targets or ())) > 0:
        print(f"{count} files made again")


@app.command()
def restore(
    scale: ScaleOption = None,
    bundle: Annotated[Path | None, typer.Option(help="archive of `tap publish bundle` to unpack first")] = None,
) -> None:
    """Verify results that came from elsewhere, then have Snakemake take them for done; data are prepared if missing."""
    from tap.provenance import restore as restoring

    cfg, left_out = load_scale(scale), ()
    if bundle is not None:
        from tap.provenance.bundle import unpack_bundle

        unpacked = unpack_bundle(bundle, cfg)
        print(f"{unpacked.new} files from {bundle}")
        left_out = unpacked.left_out
        _prepare_missing_data(cfg)
    print(restoring.restore(cfg, Today(cfg).staleness, left_out=left_out))


@groups["compare"].command("published")
def compare_published(
    scale: ScaleOption = None,
    everything: Annotated[bool, typer.Option("--all", help="a line for every run, also for the same bits")] = False,
) -> None:
    """Set your results beside the published ones: the same bits, or the difference with its interval."""
    from tap.paper.compare_published import summary as beside

    print(beside(load_scale(scale).scale, everything=everything))


@groups["report"].command("published")
def report_published(scale: ScaleOption = None) -> None:
    """Show the published tables and where their page is; nothing is run."""
    from tap.paper.summary import print_summary

    folder = published_folder(load_scale(scale).scale)
    if not folder.is_dir():
        raise UserError(f"{folder}: nothing is published of this scale; `tap publish results` does that")
    print(f"Published results, read from {folder}: nothing was run here ({folder}/README.md says what made them)")
    print_summary(folder / "tables")
    print(f"Verdicts on the paper's claims, with the way back from each number: {folder}/audit/audit.html")


@app.command()
def summary(scale: ScaleOption = None) -> None:
    """Say where the tables are, how full they are, and how they compare with the paper."""
    from tap.paper.summary import print_summary

    name = load_scale(scale).scale
    if name == load_params().scale:
        print_summary("paper_tables")
    else:
        print_summary(tables_folder(name), made_by=f"make reproduce SCALE={name}")


def _prepare_missing_data(cfg: ScaleConfig) -> None:
    """Prepares the data that records rest on, where they are not there."""
    from tap.tasks.preparation import prepare_data

    prepare = JOBS["prepare"]
    read = {file for record in read_ledger(cfg).records.values() for file in record.inputs}
    for root, task in prepared_folders(cfg).items():
        if any(file.startswith(f"{root}/") for file in read) and not (Path(root) / DATA_RECORD).is_file():
            print(prepare_data(task_of(cfg, task).data, stamp=prepare.stamp(cfg, task)))


if __name__ == "__main__":
    run()
