"""What is wrong with a finished project, and where it starts."""

import hashlib
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs import staleness
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.paper.tidy import write_tidy
from tap.provenance import fingerprint
from tap.provenance.finding import Kind
from tap.provenance.record import Stamp, record_job, sealed
from tap.provenance.verify import require, verify, write_verified
from tap.runs import Run

START, FLOOR_START = (
    Run("smoke", "seg", "dense", variant=variant).folder for variant in ("start", "random-encoder-start")
)
TAP, DENSE = (Run("smoke", "seg", method, rate).folder for method, rate in (("tap", 0.5), ("dense", 1.0)))


def found(*targets):
    cfg = load_scale("smoke")
    return verify(cfg, Today(cfg).staleness, targets)


def first(*targets):
    finding = found(*targets).findings[0]
    return finding.path, finding.kind


def tracked():
    """Every file of the project that is a result or belongs to one."""
    folders = (Path("data"), Path("results"), Path("paper_tables"))
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def test_a_finished_project_is_what_its_records_say(finished):
    verification = found()
    assert verification.findings == ()
    assert set(verification.files) >= {path.as_posix() for path in tracked()}
    order = verification.order
    assert order.index(f"{DENSE}/run.json") < order.index(f"{TAP}/run.json") < order.index(f"{TAP}/evaluation.json")
    assert order[0] == "data/microscopy/record.json"
    assert order.index("results/smoke/tidy_seg.record.json") < order.index("results/smoke/verified_seg.json")


@pytest.mark.slow
def test_a_flipped_byte_in_any_file_is_found_and_named(finished):
    rng, kinds = random.Random(0), set()
    for path in tracked():
        content = path.read_bytes()
        ends = {0, len(content) - 1} if path.suffix == ".json" and path.name not in kinds else set()
        positions = {rng.randrange(len(content))} | ends
        for position in positions:
            flipped = bytearray(content)
            flipped[position] ^= 1 << rng.randrange(8)
            path.write_bytes(flipped)
            paths = {finding.path: finding for finding in found().findings}
            assert path.as_posix() in paths, f"{path}, byte {position}: {list(paths)}"
            assert paths[path.as_posix()].kind in (Kind.EDITED, Kind.UNKNOWN)
        path.write_bytes(content)
        kinds.add(path.name)
    assert kinds >= {
        "a.png", "manifest.json", "record.json", "model.safetensors", "log.csv", "run.json", "metrics.json",
        "per_sample.npz", "evaluation.json", "picture.png", "picture.json", "endpoint_seg.json", "tidy_seg.csv",
        "verified_seg.json", "tab_seg.tex", "tab_seg.csv", "tab_seg.compare.csv", "tab_seg.record.json",
        "headline.json", "audit.html",
    }  # fmt: skip
    assert found().findings == ()


def test_the_first_finding_is_where_the_trouble_starts(finished):
    for name in ("paper_tables/tab_seg.tex", f"{TAP}/metrics.json", f"{DENSE}/model.safetensors"):
        with open(name, "a") as file:
            file.write(" ")
        assert first() == (name, Kind.EDITED)
    with pytest.raises(UserError, match=rf"^{DENSE}/model\.safetensors: edited: not what {DENSE}/run\.json says"):
        require(found())


def test_an_edit_that_keeps_the_time_and_the_size_is_found(finished):
    path = TAP / "metrics.json"
    times = path.stat()
    path.write_text(path.read_text().replace("43.0", "44.0"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert first() == (str(path), Kind.EDITED)


def test_a_missing_file_is_named(finished):
    (DENSE / "model.safetensors").unlink()
    assert first() == (f"{DENSE}/model.safetensors", Kind.MISSING)
    with pytest.raises(UserError, match="snakemake makes it anew"):
        require(found())
    require(found(), allowed=[Kind.MISSING])


def test_a_file_that_no_job_made_is_of_unknown_origin(finished):
    stray = Path("results/smoke/runs/seg/tap/r0.70/main/s0/metrics.json")
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    assert first() == (stray.as_posix(), Kind.UNKNOWN)
    assert found("paper_tables/tab_seg.tex").findings == (), "no table was made from it"
    assert first(stray) == (stray.as_posix(), Kind.UNKNOWN)
    assert first("paper_tables/nothing.tex") == ("paper_tables/nothing.tex", Kind.MISSING)


def test_results_without_their_record_are_of_unknown_origin(finished):
    (TAP / "evaluation.json").unlink()
    kinds = {finding.path: finding.kind for finding in found().findings}
    assert kinds[f"{TAP}/metrics.json"] == Kind.UNKNOWN


def test_the_records_are_chained_so_a_forged_one_is_found(finished):
    """A record that was edited together with its file and sealed again is not the one that later records name."""
    record, metrics = TAP / "evaluation.json", TAP / "metrics.json"
    metrics.write_text(metrics.read_text().replace("43.0", "83.0"))
    content = json.loads(record.read_text())
    content["outputs"][metrics.as_posix()]["sha256"] = hashlib.sha256(metrics.read_bytes()).hexdigest()
    record.write_text(sealed(content))
    findings = {finding.path: finding for finding in found().findings}
    tidy = findings["results/smoke/tidy_seg.csv"]
    assert (tidy.kind, tidy.reason) == (Kind.STALE, f"made from an earlier {record}")


def test_changed_code_and_settings_make_results_stale_not_edited(finished, monkeypatch):
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("[0.5]", "[0.5], tasks.seg.dense.length: 9"))
    finding = found().findings[0]
    assert (finding.path, finding.kind) == (f"{FLOOR_START}/model.safetensors", Kind.STALE)
    assert finding.reason == "other settings: train.length was 3.0, is 9.0"

    evaluate = type(JOBS["evaluate"])
    code = evaluate.code
    monkeypatch.setattr(
        evaluate, "code", lambda job, cfg, key: ("x" if key.method == "tap" else "") + code(job, cfg, key)
    )
    assert f"{TAP}/metrics.json: stale: other code" in [str(finding) for finding in found().findings]


def test_a_library_upgrade_shows_as_the_reason(finished, monkeypatch):
    version = fingerprint.version
    monkeypatch.setattr(fingerprint, "version", lambda name: "9.9" if name == "torch" else version(name))
    monkeypatch.setattr(staleness, "version", lambda name: "9.9" if name == "torch" else version(name))
    finding = found().findings[0]
    assert finding.kind == Kind.STALE
    assert "torch 2." in finding.reason
    assert "-> 9.9" in finding.reason


def test_a_result_made_anew_leaves_what_was_made_of_the_old_one_stale(finished):
    spec_record = json.loads((START / "run.json").read_text())
    for name in ("model.safetensors", "log.csv"):
        (START / name).write_bytes(b"other weights")
    record_job(
        START / "run.json",
        Stamp("train", spec_record["fingerprint"]),
        inputs=list(spec_record["inputs"]),
        outputs=[START / "model.safetensors", START / "log.csv"],
        started=datetime.now(UTC),
        facts={"run": spec_record["run"], "spec": spec_record["spec"]},
    )
    findings = {finding.path: finding for finding in found().findings}
    assert findings[f"{TAP}/model.safetensors"].reason == f"made from an earlier {START}/model.safetensors"
    assert all(finding.kind == Kind.STALE for finding in findings.values())
    assert f"{START}/model.safetensors" not in findings


def prepare_again(change=lambda content: None, started="2999-01-01T00:00:00+00:00"):
    """The data are prepared anew after everything else: a record with other times."""
    record = Path("data/microscopy/record.json")
    content = json.loads(record.read_text())
    content["started"] = content["ended"] = started
    change(content)
    record.write_text(sealed(content))


def test_data_that_are_prepared_again_with_the_same_bytes_leave_results_valid(finished):
    prepare_again()
    assert found().findings == ()


def test_data_that_are_prepared_again_with_other_bytes_leave_results_stale(finished):
    image = Path("data/microscopy/images/training/a.png")
    image.write_bytes(b"other")

    def change(content):
        content["outputs"][image.as_posix()]["sha256"] = hashlib.sha256(b"other").hexdigest()

    prepare_again(change)
    finding = found().findings[0]
    assert (finding.kind, finding.reason) == (Kind.STALE, "made from an earlier data/microscopy/record.json")


def test_a_record_of_the_same_bytes_that_is_no_later_one_is_not_taken_for_one(finished):
    """Who edits a record and seals it again has not made anything again."""
    record = Path("data/microscopy/record.json")
    content = json.loads(record.read_text())
    record.write_text(sealed(content | {"device": "another one", "started": "2000-01-01T00:00:00+00:00"}))
    assert found().findings[0].reason == "made from an earlier data/microscopy/record.json"


def test_records_of_an_earlier_form_are_stale(finished):
    record = TAP / "picture.json"
    content = json.loads(record.read_text())
    for part in ("job", "seal"):
        del content[part]
    record.write_text(json.dumps(content))
    assert [str(finding) for finding in found().findings] == [
        f"{TAP}/picture.png: stale: its record is of an earlier form",
        f"results/smoke/audit/audit.html: stale: made from an earlier {TAP}/picture.json",
    ]


def test_a_job_refuses_an_edited_input(finished):
    path = TAP / "metrics.json"
    path.write_text(path.read_text().replace("1.25", "1.35"))
    with pytest.raises(UserError, match=r"metrics\.json: differs from what .*evaluation\.json says of it"):
        write_tidy("smoke", "seg", "results/smoke/tidy_seg.csv")


def test_nothing_is_verified_for_a_table_if_anything_behind_it_is_wrong(finished):
    cfg, tidy = load_scale("smoke"), "results/smoke/tidy_seg.csv"
    with open(DENSE / "log.csv", "a") as file:
        file.write("1,2\n")
    with pytest.raises(UserError, match=r"log\.csv: edited"):
        write_verified(cfg, Today(cfg).staleness, "seg", [tidy])
    assert not Path("results/smoke/verified_seg.json").exists()


def test_a_circle_of_records_is_an_error(finished):
    record = Path("data/microscopy/record.json")
    content = json.loads(record.read_text())
    content["inputs"] = {f"{TAP}/run.json": {"sha256": "0"}}
    record.write_text(sealed(content))
    with pytest.raises(UserError, match="name each other in a circle"):
        found()


def test_data_outside_of_the_project_are_verified_too(finished, tmp_path):
    outside = tmp_path / "elsewhere"
    (outside / "images").mkdir(parents=True)
    files = [outside / "manifest.json", outside / "images" / "a.png"]
    for file in files:
        file.write_text("{}")
    record_job(
        outside / "record.json",
        JOBS["prepare"].stamp(load_scale("smoke"), "seg"),
        inputs=[],
        outputs=files,
        started=datetime.now(UTC),
        bases=(outside,),
    )
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("[0.5]", f"[0.5], tasks.seg.data.root: {outside}"))
    names = {finding.path for finding in found().findings}
    assert not [name for name in names if "elsewhere" in name]
    files[1].write_text("{]")
    assert "outside/elsewhere/images/a.png: edited" in str(found().findings[0])
