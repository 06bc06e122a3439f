"""Tables of the paper, each with its comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.schema import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.files import results_of_runs
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_names import NamedJob, Names
from tap.paper.tables.names import groups, main_tables, names
from tap.provenance.publish import tables_folder

TABLE_FILES = (".tex", ".csv", ".compare.csv", ".compare.md")


class Table(NamedJob):
    """Builds tables from tidy tables, or from the settings alone."""

    name, command, wildcard = "table", "table", "table"
    about = "Build tables of the paper from the runs, each with its comparison."
    makes: ClassVar[Mapping[str, str]] = {
        **{suffix: f"results/{{scale}}/tables/{{table}}{suffix}" for suffix in TABLE_FILES},
        ".record.json": "results/{scale}/tables/{table}.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: Names) -> Any:
        """The main rate; all settings where a table is a function of these."""
        whole = {"settings": cfg.model_dump(mode="json")} if key[0] in groups()["settings"] else {}
        return {"table": " ".join(key), "scale": cfg.scale, "main_rate": cfg.main_rate, **whole}

    def reads(self, cfg: ScaleConfig, key: Names) -> Mapping[str, Sequence[Path]]:
        """Of a main table, whose name ends in its task: the tidy table, what was verified behind it, and the runs."""
        task, results = main_tables()[key[0]], Path("results") / cfg.scale
        return {
            "tidy": [results / f"tidy_{task}.csv"],
            "verified": [results / f"verified_{task}.json"],
            "results": results_of_runs(cfg, task),
        }

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Path]]:
        """Every table of the scale's tasks."""
        mine = [name for name in names() if main_tables().get(name, "") in ("", *built(cfg))]
        return {"tables": [self.folder(cfg) / f"{name}{suffix}" for name in mine for suffix in TABLE_FILES]}

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


JOB = Table()
