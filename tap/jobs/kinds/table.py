"""Tables of the paper, each with its comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_names import NamedJob, Names
from tap.paper.reported import reported_path
from tap.paper.tables.names import groups, main_tables, names, profiled
from tap.plan.profiles import profiles_in_use
from tap.plan.results import files_behind, results_of_runs
from tap.provenance.publish import tables_folder

TABLE_FILES = (".tex", ".csv", ".compare.csv", ".compare.md")


class Table(NamedJob):
    """Builds tables from tidy tables, or from the settings alone."""

    name, command, wildcard = "table", "table", "table"
    about = "Build tables of the paper from the runs, each with its comparison."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"results/{{scale}}/tables/{{table}}{suffix}" for suffix in (*TABLE_FILES, ".record.json")
    }

    def settings(self, cfg: ScaleConfig, key: Names) -> Any:
        """The main rate; all settings where a table is a function of these."""
        whole = {"settings": cfg.model_dump(mode="json")} if key[0] in groups()["settings"] else {}
        return {"table": " ".join(key), "scale": cfg.scale, "main_rate": cfg.main_rate, **whole}

    def reads(self, cfg: ScaleConfig, key: Names) -> Mapping[str, Sequence[Path]]:
        """What its group is made from (all of `key` are of one), the runs of a main table too, and the printed ones."""
        group, task = next(group for group, known in groups().items() if key[0] in known), main_tables().get(key[0])
        behind = files_behind(cfg, group, built(cfg) if task is None else [task])
        printed = (Path("tap/paper/reported", reported_path(name).name) for name in key)
        return {
            **behind,
            "results": behind["results"] if task is None else results_of_runs(cfg, task),
            "reported": [path for path in printed if path.is_file()],
        }

    def also_reads(self, cfg: ScaleConfig, key: Names) -> Sequence[Path]:
        """The profiles that they show."""
        shown = dict.fromkeys(profile for table in key for profile in profiled(table, list(cfg.tasks)))
        return profiles_in_use(cfg, list(shown))

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Names]]:
        """Every table of the scale's tasks."""
        return {"tables": [(name,) for name in tables_of(cfg)]}

    def roots(self, cfg: ScaleConfig, key: Names) -> Sequence[str]:
        """What builds tables, and the files of these: main tables have none of their own."""
        own = (f"tap.paper.tables.{name}:TABLE" for name in key if name not in main_tables())
        return ("tap.paper.tables.build:build_table", *own)

    def libraries(self, key: Names) -> tuple[str, ...]:
        """Those of tables."""
        return code_roots.TABULATING

    def resources(self, cfg: ScaleConfig, key: Names) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def folder(self, cfg: ScaleConfig) -> Path:
        """The scale's tables."""
        return tables_folder(cfg.scale)

    def run(self, cfg: ScaleConfig, name: str, folder: Path) -> Sequence[Path]:
        """Builds one."""
        from tap.paper.tables.build import build_table, table_name

        return build_table(name, cfg.scale, folder, stamp=self.stamp(cfg, (table_name(name),)))


def tables_of(cfg: ScaleConfig) -> list[str]:
    """The tables of a scale: the main tables of its tasks, and all others."""
    return [name for name in names() if main_tables().get(name, "") in ("", *built(cfg))]


JOB = Table()
