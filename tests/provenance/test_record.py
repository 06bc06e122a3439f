import hashlib
import json
import os
import platform
import socket
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.plan.specs import job_spec
from tap.provenance.record import Stamp, write_record
from tap.runs import Run

STAMP = Stamp("train", "f" * 64, libraries=("torch",))
FACTS = {"device": "a processor", "threads": 1}


@pytest.fixture
def spec():
    return job_spec(load_scale("smoke"), Run("smoke", "cls", "tap", 0.5))


def test_a_record_holds_settings_files_versions_and_times(tmp_path, spec):
    (tmp_path / "in.json").write_text("{}")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "out.bin").write_bytes(b"abc")
    started = datetime.now(timezone(timedelta(hours=2))) - timedelta(seconds=5)
    path = write_record(
        tmp_path / "runs",
        spec,
        STAMP,
        [tmp_path / "in.json"],
        [tmp_path / "runs" / "out.bin"],
        started,
        {"steps": 4},
        root=tmp_path,
        **FACTS,
    )
    record = json.loads(path.read_text())
    assert path.name == "run.json"
    assert record["run"] == "smoke/cls/tap/r0.50/main/s0"
    assert record["spec"] == json.loads(spec.model_dump_json())
    assert record["inputs"] == {"in.json": {"sha256": hashlib.sha256(b"{}").hexdigest(), "bytes": 2}}
    assert record["outputs"] == {"runs/out.bin": {"sha256": hashlib.sha256(b"abc").hexdigest(), "bytes": 3}}
    assert record["versions"]["python"] == platform.python_version()
    assert record["versions"]["torch"].count(".") == 2
    assert record["started"].endswith("+00:00")
    assert datetime.fromisoformat(record["started"]) == started.astimezone(UTC).replace(microsecond=0)
    assert 5.0 <= record["wall_seconds"] < 60.0
    assert record["steps"] == 4
    assert record["fingerprint"] == "f" * 64


def test_a_record_names_no_host_and_no_absolute_path(tmp_path, spec):
    project, elsewhere = tmp_path / "project", tmp_path / "mine" / "weights.pth"
    project.mkdir()
    elsewhere.parent.mkdir()
    elsewhere.write_text("w")
    data = spec.data.model_copy(update={"root": str(tmp_path / "mine")})
    (tmp_path / "mine" / "manifest.json").write_text("{}")
    spec = spec.model_copy(update={"data": data})
    text = write_record(project, spec, STAMP, [elsewhere], [], datetime.now(UTC), root=project, **FACTS).read_text()
    record = json.loads(text)
    assert list(record["inputs"]) == ["outside/mine/manifest.json", "outside/mine/weights.pth"]
    assert record["spec"]["data"]["root"] == "outside/mine"
    assert str(tmp_path) not in text
    assert os.getcwd() not in text
    assert json.dumps(socket.gethostname()) not in text


def test_a_missing_output_is_an_error_and_no_record_appears(tmp_path, spec):
    with pytest.raises(UserError, match=r"gone\.npz: cannot be read"):
        write_record(tmp_path, spec, STAMP, [], [tmp_path / "gone.npz"], datetime.now(UTC), root=tmp_path, **FACTS)
    assert not list(tmp_path.iterdir())
