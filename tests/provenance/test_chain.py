"""What is missing or unsound is noticed before Snakemake plans, and its job's note repeats it, once."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.jobs.staleness import Today
from tap.provenance.chain import NOTES, WORKFLOW_LOCK, Chain, Notes
from tap.provenance.files import sha256_file
from tap.provenance.hash_cache import CACHE
from tap.provenance.locks import hold_lock
from tap.provenance.record import read_record, sealed

RUN = Path("results/smoke/runs/seg/tap/r0.50/main/s0")
PRETRAINED = Path("results/smoke/runs/seg/mae/r1.00/main/s0")
TRAINING = [RUN / name for name in ("model.safetensors", "log.csv", "run.json")]
EVALUATION = [RUN / name for name in ("metrics.json", "per_sample.npz", "evaluation.json")]
DATA = [Path("data/microscopy") / name for name in ("manifest.json", "record.json")]


def chain() -> Chain:
    return Chain(load_scale("smoke"))


def notes() -> Notes:
    return Notes(chain())


def test_a_finished_project_is_whole(finished):
    found = chain()
    assert found.wrong == {}
    assert found.summary() == ""
    assert found.reason(TRAINING) is None
    assert found.reason(DATA) is None
    assert notes().of(TRAINING) == []
    assert not NOTES.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "log.csv", "run.json"])
def test_a_missing_file_makes_its_job_unsound_and_no_other(finished, name):
    (RUN / name).unlink()
    found = chain()
    assert found.reason(TRAINING).startswith(f"{RUN}/{name}: ")
    assert found.reason(EVALUATION) is None
    assert f"{RUN}/{name}: is not there" in found.summary()


def test_a_missing_folder_that_others_were_made_from_is_noticed(finished):
    shutil.rmtree(PRETRAINED)
    assert chain().reason([PRETRAINED / "model.safetensors", PRETRAINED / "run.json"]) is not None


def test_what_was_never_made_is_left_to_snakemake(finished):
    assert chain().reason([Path("results/smoke/runs/cls/tap/r0.50/main/s0") / path.name for path in TRAINING]) is None


def test_a_file_of_the_data_that_no_rule_declares_is_missed_too(finished):
    (DATA[0].parent / "README.md").unlink()
    assert chain().reason(DATA) == "data/microscopy/README.md: is not there"


@pytest.mark.parametrize("name", ["metrics.json", "per_sample.npz", "evaluation.json"])
def test_an_edited_file_makes_its_job_unsound_even_with_its_old_times(finished, name):
    chain()  # remembers all hashes
    path, times = RUN / name, (RUN / name).stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert chain().reason(EVALUATION) is not None
    assert chain().reason(TRAINING) is None


def test_results_without_their_record_are_not_trusted(finished):
    (RUN / "evaluation.json").unlink()
    for path in Path("results").rglob("*.json"):  # nothing else tells of it either
        content = read_record(path)
        if content is not None and content["inputs"].pop(f"{RUN}/evaluation.json", None):
            path.write_text(sealed(content))
    assert chain().reason(EVALUATION) == f"{RUN}/metrics.json: no record says that its job ended"


def test_what_was_made_from_other_weights_is_noticed(finished):
    (RUN / "model.safetensors").write_bytes(b"others")
    record = json.loads((RUN / "run.json").read_text())
    record["outputs"][f"{RUN}/model.safetensors"] = {"sha256": sha256_file(RUN / "model.safetensors"), "bytes": 6}
    (RUN / "run.json").write_text(sealed(record))
    assert "made from an earlier" in chain().wrong[f"{RUN}/evaluation.json"]


def test_a_note_is_newer_than_what_the_job_made_until_it_has_run(finished):
    path, content = RUN / "metrics.json", (RUN / "metrics.json").read_bytes()
    path.unlink()
    (note,) = notes().of(EVALUATION)
    first = Path(note).read_bytes()
    assert Path(note).stat().st_mtime > (RUN / "per_sample.npz").stat().st_mtime
    assert json.loads(first)["reason"] == f"{RUN}/metrics.json: is not there"
    assert notes().of(EVALUATION) == [note], "a dry run before changes nothing"
    assert Path(note).read_bytes() != first, "other bytes than any that a job has read"

    path.write_bytes(content)
    again(RUN / "evaluation.json")
    assert notes().of(EVALUATION) == [note], "the job has run: Snakemake remembers the note as its input"
    assert Path(note).stat().st_mtime < time.time()


def test_a_note_is_withdrawn_when_the_file_is_put_back(finished):
    path, content = RUN / "metrics.json", (RUN / "metrics.json").read_bytes()
    path.unlink()
    assert notes().of(EVALUATION)
    path.write_bytes(content)
    assert notes().of(EVALUATION) == []


def test_a_note_that_was_read_before_stays_but_repeats_nothing_when_the_file_is_put_back(finished):
    path, content = RUN / "metrics.json", (RUN / "metrics.json").read_bytes()
    path.unlink()
    notes().of(EVALUATION)
    path.write_bytes(content)
    again(RUN / "evaluation.json")
    path.unlink()
    (note,) = notes().of(EVALUATION)
    path.write_bytes(content)
    again(RUN / "evaluation.json", "2001-01-01T00:00:00+00:00")
    assert notes().of(EVALUATION) == [note]
    assert Path(note).stat().st_mtime == 0


def test_nothing_is_noted_while_a_workflow_runs(finished):
    (RUN / "metrics.json").unlink()
    handle = hold_lock(WORKFLOW_LOCK)
    assert handle is not None
    assert notes().of(EVALUATION) == []
    os.close(handle)
    assert len(notes().of(EVALUATION)) == 1


def test_a_jobs_own_process_only_reads(finished):
    (RUN / "metrics.json").unlink()
    assert Notes(None).of(EVALUATION) == []
    noted = notes().of(EVALUATION)
    assert Notes(None).of(EVALUATION) == noted


def test_data_of_earlier_code_are_prepared_again(finished):
    assert Chain(load_scale("smoke"), staleness=Today(load_scale("smoke")).staleness).wrong == {}
    content = json.loads(DATA[1].read_text())
    DATA[1].write_text(sealed({**content, "fingerprint": "0" * 64}))
    found = Chain(load_scale("smoke"), staleness=Today(load_scale("smoke")).staleness)
    assert found.reason(DATA) == "data/microscopy/record.json: other code"
    assert found.reason(TRAINING) is None


def test_an_audit_that_shows_the_hash_of_other_records_is_made_again(finished):
    folder = Path("results/smoke/audit")
    audit = [folder / f"audit.{suffix}" for suffix in ("json", "md", "html", "record.json")]
    assert chain().reason(audit) is None
    again(RUN / "run.json")
    assert (
        chain().reason(audit) == f"{folder}/audit.record.json: shows the root hash of other records than there are now"
    )
    assert chain().reason(TRAINING) is None, "the same bytes"


def test_damaged_hashes_are_found_out_again(finished):
    chain()
    CACHE.write_text("{")
    assert chain().wrong == {}


def again(record: Path, started: str = "2999-01-01T00:00:00+00:00") -> None:
    """As if the job had run then and made the same."""
    content = json.loads(record.read_text())
    content["started"] = started
    record.write_text(sealed(content))
