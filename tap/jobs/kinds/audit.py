"""The audit of the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.files import of_package
from tap.jobs.job import Resources, tabulating
from tap.jobs.kinds.figure import JOB as FIGURES
from tap.jobs.kinds.figure import drawn
from tap.jobs.kinds.headline import JOB as HEADLINE
from tap.jobs.kinds.kept_patches import JOB as KEPT
from tap.jobs.kinds.paper_page import JOB as PAGE
from tap.jobs.kinds.table import tables_of
from tap.jobs.kinds.tune import JOB as TUNE
from tap.jobs.kinds.tune import among_results
from tap.jobs.of_scales import ScaleJob
from tap.plan.profiles import profiles_in_use
from tap.plan.results import PROBES, tidy_path
from tap.plan.runs import FURTHER, pictured_runs
from tap.plan.shown_runs import tasks_shown
from tap.plan.tuning import SEARCHES, own_values, search_path, searched_methods


class Audit(ScaleJob):
    """Gives every claim a verdict, and says what is wrong with the results."""

    name, command = "audit", "audit"
    about = "Give every claim of the paper a verdict: JSON, Markdown, and a page with the way back from each number."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"results/{{scale}}/audit/audit.{suffix}" for suffix in ("json", "md", "html", "record.json")
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """The main rate, and what methods have of their own, which is shown beside what a search found best."""
        own = {task: {name: own_values(cfg, task, name) for name in searched_methods(cfg, task)} for task in cfg.tasks}
        return {"main_rate": cfg.main_rate, "own": own}

    def reads(self, cfg: ScaleConfig, key: None) -> Mapping[str, Sequence[Path]]:
        """Everything that leaves a record, since its page shows the hash over all of them, and the paper's claims."""
        tasks, results = built(cfg), Path("results") / cfg.scale
        shown = (FIGURES.made(cfg, drawn(cfg)), (".svg", ".caption.md"))
        return {
            "tables": [results / "tables" / f"{name}.csv" for name in tables_of(cfg)],
            "tidy": [tidy_path(cfg.scale, f"{of}{task}") for of in ("", FURTHER, PROBES) for task in tasks],
            "figures": [path for path in shown[0] if path.name.endswith(shown[1])],
            "pictures": [run.folder / "picture.png" for run in pictured_runs(cfg)],
            "records": [
                HEADLINE.record(cfg, None),
                PAGE.record(cfg, None),
                *(KEPT.record(cfg, task) for task in tasks_shown(cfg)),
            ],
            "searches": [path for key in among_results(cfg) for path in TUNE.made(cfg, key)],
            "paper": of_package("paper/claims/*.yaml", "paper/reported/*.yaml", "paper/audit/page/*"),
        }

    def also_reads(self, cfg: ScaleConfig, key: None) -> Sequence[Path]:
        """The profiles that claims on speed and memory are judged by, and searches of methods' own settings."""
        searches = [search_path(cfg.scale, task, search) for task in built(cfg) for search in SEARCHES]
        return [*profiles_in_use(cfg, list(cfg.tasks)), *(path for path in searches if path.is_file())]

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[None]]:
        """The page."""
        return {"audit": [None]}

    def roots(self, cfg: ScaleConfig, key: None) -> Sequence[str]:
        """Claims, predicates and pages."""
        return ("tap.paper.audit.job:run_audit",)

    def libraries(self, key: None) -> tuple[str, ...]:
        """Those of tables, and that of the page."""
        return (*code_roots.TABULATING, "jinja2")

    def resources(self, cfg: ScaleConfig, key: None) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def run(self, cfg: ScaleConfig) -> None:
        """Audits."""
        from tap.jobs.staleness import Today
        from tap.paper.audit.job import run_audit
        from tap.paper.audit.outcome import Verdict

        found, paths = run_audit(cfg.scale, Today(cfg).staleness, stamp=self.stamp(cfg, None))
        print("\n".join(map(str, paths)))
        print(", ".join(f"{found.count(verdict)} {verdict}" for verdict in Verdict))


JOB = Audit()
