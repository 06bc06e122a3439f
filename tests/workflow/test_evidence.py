"""The chain of evidence through DVC, in a throw-away repository: build, push, clone, pull, restore, repeat."""

import shutil
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]
RUNS = "results/smoke/runs/cls"


@pytest.fixture(scope="module")
def restored(built, tmp_path_factory):
    """A fresh clone, pulled and restored."""
    clone = built.clone(tmp_path_factory.mktemp("clone") / "clone")
    assert clone.planned(), "a clone as such would be made anew"
    done = clone.call("tap", "restore")
    assert "not restored" not in done.stdout
    return clone


def test_nothing_is_left_to_do_after_a_clone(restored):
    assert restored.planned() == {}
    status = restored.call("dvc", "status").stdout.split()
    assert status == ["verify:", "always", "changed"]
    restored.call("tap", "verify")


def test_a_comment_repeats_nothing_and_a_changed_line_exactly_what_uses_it(restored):
    path = restored.folder / "tap/core/selection.py"
    original = path.read_text()
    path.write_text(original.replace("\nimport torch\n", "\n# A comment.\nimport torch\n"))
    assert restored.planned("stage_evaluate") == {}
    path.write_text(original.replace("\nimport torch\n", "\nimport torch\n\nprint(torch)\n"))
    planned = restored.planned("stage_evaluate")
    path.write_text(original)
    assert planned == {"train_method": 1, "evaluate": 1, "control": 1, "stage_evaluate": 1}


def test_an_edited_result_stops_dvc_and_is_never_taken_for_true(restored):
    path = restored.folder / f"{RUNS}/tap/r0.50/main/s0/metrics.json"
    content, lock = path.read_bytes(), (restored.folder / "dvc.lock").read_text()
    path.write_bytes(content.replace(b'"top1": ', b'"top1": 9'))
    done = restored.call("dvc", "repro", check=False)
    assert done.returncode != 0
    assert f"{path.relative_to(restored.folder)}: edited" in done.stdout + done.stderr
    assert (restored.folder / "dvc.lock").read_text() == lock
    path.write_bytes(content)


def test_an_edited_file_of_a_clone_is_refused_by_name(built, tmp_path):
    clone = built.clone(tmp_path / "clone")
    path = clone.folder / f"{RUNS}/tap/r0.50/main/s0/metrics.json"
    path.write_bytes(path.read_bytes() + b" ")
    before = {file: file.stat().st_mtime_ns for file in Path(clone.folder / "results").rglob("*")}
    done = clone.call("tap", "restore", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {path.relative_to(clone.folder)}: edited")
    assert {file: file.stat().st_mtime_ns for file in Path(clone.folder / "results").rglob("*")} == before
    assert not (clone.folder / "paper_tables").exists()
    shutil.rmtree(clone.folder)


def test_data_prepared_again_with_the_same_bytes_leave_everything_done(restored):
    """The manifest is what it was, so Snakemake repeats nothing; the new record has other times."""
    folder = restored.folder / "data/fashion_mnist"
    before = (folder / "record.json").read_bytes()
    for name in ("manifest.json", "record.json"):
        (folder / name).unlink()
    restored.call("snakemake", "stage_data")
    assert (folder / "record.json").read_bytes() != before
    assert restored.planned() == {}
    restored.call("tap", "verify")
