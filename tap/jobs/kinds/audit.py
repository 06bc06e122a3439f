"""The audit of the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.schema import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_scales import ScaleJob


class Audit(ScaleJob):
    """Gives every claim a verdict, and says what is wrong with the results."""

    name, command = "audit", "audit"
    about = "Give every claim of the paper a verdict: JSON, Markdown, and a page with the way back from each number."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"results/{{scale}}/audit/audit.{suffix}" for suffix in ("json", "md", "html", "record.json")
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """The main rate."""
        return {"main_rate": cfg.main_rate}

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Path]]:
        """The page."""
        return {"audit": [Path(self.makes["html"].format(scale=cfg.scale))]}

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
