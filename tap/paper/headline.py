"""The few numbers that stand for a scale, for `dvc metrics` and plots: score, kept patches and throughput by method.

A function of the tidy tables and of the profiles of the scale's own models; means over seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from tap.config.load import load_scale
from tap.config.methods import DENSE, MAIN
from tap.paper.evidence import Evidence
from tap.paper.profiles import Profile
from tap.paper.tidy import PRIMARY_METRIC, read_tidy
from tap.plan.profiles import profiles_in_use
from tap.plan.results import tidy_paths
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job

OTHERS = ("encoder_speedup", "final_tokens_mean")


def headline_paths(scale: str) -> tuple[Path, Path]:
    """Where the numbers are, as JSON and as CSV, relative to the project's root."""
    return Path("results") / scale / "headline.json", Path("results") / scale / "headline.csv"


def headline(frame: pd.DataFrame, profile: Profile | None = None) -> pd.DataFrame:
    """Means over seeds of a task's runs.

    Args:
        frame: a tidy table.
        profile: of the scale's own models; None if there is none.

    Returns:
        One line per method and rate, in this order, of the main variant: task, method, rate, seeds, score (the task's
        own metric), encoder_speedup, final_tokens_mean.
    """
    wanted = frame["metric"].isin([*PRIMARY_METRIC.values(), "final_tokens_mean"]) & (frame["variant"] == MAIN)
    runs = frame[wanted].pivot(index=["task", "method", "rate", "seed"], columns="metric", values="value").reset_index()
    runs["score"] = runs[[name for name in PRIMARY_METRIC.values() if name in runs]].bfill(axis=1).iloc[:, 0]
    columns = ["score", *OTHERS]
    grouped = runs.reindex(columns=["task", "method", "rate", "seed", *columns]).groupby(["task", "method", "rate"])
    means = grouped[columns].mean()
    means.insert(0, "seeds", grouped["seed"].nunique())
    lines = means.reset_index()
    if profile is not None:
        lines["encoder_speedup"] = [_speedup(profile, line.method, line.rate) for line in lines.itertuples()]
    return lines


def _speedup(profile: Profile, method: str, rate: float) -> float:
    found = profile.value(method if method == DENSE else f"{method}@{rate:.2f}", "encoder_speedup")
    return math.nan if found is None else found.mean


def headline_contents(scale: str, tasks: Sequence[str], root: Path | str = ".") -> tuple[str, str]:
    """The numbers of a scale's tasks as JSON (by task, method and rate) and as CSV.

    Raises:
        UserError: a tidy table is missing or wrong.
    """
    evidence = Evidence(scale, Path(root))
    lines = pd.concat(
        [headline(_runs(scale, task, Path(root)), evidence.profile(task, evidence.own_shapes)) for task in tasks],
        ignore_index=True,
    )
    tree: dict[str, Any] = {}
    for line in lines.to_dict("records"):
        numbers = {name: round(line[name], 4) for name in ("score", *OTHERS) if pd.notna(line[name])}
        tree.setdefault(line["task"], {}).setdefault(line["method"], {})[f"r{line['rate']:.2f}"] = numbers
    return json.dumps(tree, indent=1, sort_keys=True) + "\n", lines.to_csv(index=False, lineterminator="\n")


def _runs(scale: str, task: str, root: Path) -> pd.DataFrame:
    """Both tidy tables of a task; results that were published before there were two have one."""
    main, further = (root / path for path in tidy_paths(scale, task))
    return pd.concat([read_tidy(path) for path in (main, further) if path == main or path.is_file()])


def write_headline(scale: str, tasks: Sequence[str], root: Path | str = ".", stamp: Stamp = BY_HAND) -> list[Path]:
    """Writes `headline_contents`, with the record of the job.

    Raises:
        UserError: a tidy table is missing or wrong, or a file cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    as_json, as_csv = (root / path for path in headline_paths(scale))
    contents = headline_contents(scale, tasks, root)
    files = [atomic_write(path, text) for path, text in zip((as_json, as_csv), contents, strict=True)]
    record_job(
        as_json.with_suffix(RECORD_SUFFIX),
        stamp,
        inputs=[
            *(path for task in tasks for path in (root / tidy for tidy in tidy_paths(scale, task)) if path.is_file()),
            *(root / path for path in profiles_in_use(load_scale(scale, root=root), tasks, root)),
        ],
        outputs=files,
        started=started,
        root=root,
    )
    return files
