"""The audit shows what a search of methods' own settings tried and found, and whether the settings have it."""

import json
import shutil
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.config.scale import ScaleConfig
from tap.config.schema import ChosenConfig
from tap.paper.audit.audit import make_audit
from tap.paper.audit.page import to_html
from tap.paper.audit.report import to_json, to_markdown
from tap.paper.audit.searches import Searched, searches_of
from tap.plan.tuning import rounds_of, search_path
from tap.studies.tuning_outcome import outcome_of
from tap.task_facts import CLS

DESK = load_scale("desk")
CLASSIFICATION = DESK.tasks["cls"].model_copy(update={"chosen": {}})
CFG = DESK.model_copy(update={"tasks": {**DESK.tasks, "cls": CLASSIFICATION}})
BEST = {"static": 4, "random": 3}
LARGEST = CLASSIFICATION.tune.controller_lr_scales[-1]


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    """A folder with both searches of classification, in which a candidate of no pruning diverged."""
    root = tmp_path / "searched"
    for search in ("options", "budget"):
        scores = {
            (each.method, each.number, 0): 70.0 + (BEST.get(each.method, 1) == each.number)
            for candidates in rounds_of(CFG, "cls", search)
            for each in candidates
        }
        if search == "options":
            scores["dense", 4, 0] = None
        content = outcome_of(CFG, "cls", search, CLS.score, scores) | {"calibration_images": 2000}
        path = root / search_path("desk", "cls", search)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return root


def chosen(values: dict) -> ScaleConfig:
    settings = CFG.tasks["cls"].model_copy(
        update={"chosen": {name: ChosenConfig.model_validate(value) for name, value in values.items()}}
    )
    return CFG.model_copy(update={"tasks": {**CFG.tasks, "cls": settings}})


def other(found: Searched) -> set[str]:
    """Titles of the methods to which the settings give other values than the best ones."""
    return {method.title for method in found.methods if not method.in_use}


def test_what_the_settings_do_not_have_is_named(searched: Path) -> None:
    (found,) = searches_of(CFG, searched)
    assert found.task == CLS.title
    assert other(found) == {"Static rule", "Random"}
    assert {len(method.candidates) for method in found.methods} == {4}
    static = {"optimizer": {"lr": 3e-3}}
    (found,) = searches_of(chosen({"static": static}), searched)
    assert other(found) == {"Random"}
    (found,) = searches_of(chosen({"static": static, "random": {"optimizer": {"lr": 9e-4}}}), searched)
    assert other(found) == set()
    tap = {"controller": {"register_start": "class_token"}, "optimizer": {"controller_lr_scale": LARGEST}}
    (found,) = searches_of(chosen({"static": static, "random": {"optimizer": {"lr": 9e-4}}, "tap": tap}), searched)
    assert other(found) == {"TAP-J (ours)"}


def test_the_audit_shows_candidates_scores_and_what_is_in_use(searched: Path, audited: Path, tmp_path: Path) -> None:
    shutil.copytree(searched, root := tmp_path / "with searches", dirs_exist_ok=True)
    shutil.copytree(audited, root, dirs_exist_ok=True)
    audit = make_audit("desk", root)
    text, page, tree = to_markdown(audit), to_html(audit), json.loads(to_json(audit))
    row = next(line for line in text.splitlines() if line.startswith("| Static rule |"))
    assert row.endswith("lr 0.003: 71.00 | lr 0.003 | **no** |")
    assert "lr 0.003: diverged | lr 0.0003 |" in text
    assert f"register_start class_token, controller_lr_scale {LARGEST:g}: 70.00 |" in text
    assert "Trainings of 128, 256, 512 steps; Kendall's tau of each with the next" in text
    assert "<strong>lr 0.003: 71.00</strong>" in page
    assert len(tree["searches"][0]["methods"]) == len(CFG.tasks["cls"].methods) - 1
    assert "What methods have of their own" not in to_html(make_audit("desk", audited))


def test_what_no_job_is_known_to_have_made_is_left_out(searched: Path) -> None:
    options = searched / search_path("desk", "cls", "options")
    options.write_text("{")
    (found,) = searches_of(CFG, searched, {options})
    assert found.methods == ()
    assert found.budget
    assert searches_of(CFG, searched, {options, options.with_name("budget.json")}) == ()
