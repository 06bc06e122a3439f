"""Every kind of job that writes a record can be judged."""

import ast
from pathlib import Path

from tap.provenance import current
from tap.provenance.record import JOBS_OF_RUNS


def recorded_kinds():
    """Kinds of jobs by the calls that write their records."""
    for path in Path("tap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "record_job":
                kind = node.args[1]
                if isinstance(kind, ast.Constant):
                    yield kind.value


def test_every_kind_of_record_is_known():
    kinds = {*recorded_kinds(), *JOBS_OF_RUNS.values()}
    assert {"prepare", "check", "train", "evaluate", "gather", "table", "publish", "audit"} <= kinds
    assert kinds == set(current._JOBS)


def test_every_rule_with_a_job_of_its_own_declares_a_record():
    """Or makes one among its files; stages and `all` make nothing themselves."""
    for path in Path("workflow/rules").glob("*.smk"):
        for block in path.read_text().split("\nrule ")[1:]:
            name, _, body = block.partition(":")
            outputs = body.partition("output:")[2].partition("log:")[0]
            if "shell:" in body:
                assert any(part in outputs for part in ("record", "files_of_", "verified_")), f"{path}: {name}"
