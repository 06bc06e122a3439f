"""What a person could do to files of a finished project without the project's own functions: each is found by name.

Weights, figures and probes are random bytes here, since no hash asks what they mean; `tests/workflow` tampers with real
ones.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.kinds.probe import ProbeKey
from tap.jobs.registry import JOBS
from tap.jobs.staleness import Today
from tap.provenance.finding import Kind
from tap.provenance.publish import publish
from tap.provenance.record import read_record, record_job, sealed
from tap.provenance.verify import require, verify
from tap.runs import Run

TAP, DENSE, RANDOM = (
    Run("smoke", "seg", method, rate).folder.as_posix()
    for method, rate in (("tap", 0.5), ("dense", 1.0), ("random", 0.5))
)
DATA, RESULTS = "data/microscopy", "results/smoke"
TABLE, FIGURE, PROBE = f"{RESULTS}/tables/tab_seg", f"{RESULTS}/figures/fig_insight", f"{RESULTS}/probes/seg/recovery"


@dataclass(frozen=True)
class Tampering:
    """Something that is done to a file.

    Attributes:
        name: the file that has to be found.
        do: does it, given the file's path.
        kind: what is found.
    """

    name: str
    do: Callable[[Path], object]
    kind: Kind = Kind.EDITED


def flip(path):
    """One bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change(old, new):
    """Some text, once."""

    def do(path):
        text = path.read_text()
        assert old in text, f"{path} does not hold {old!r}"
        path.write_text(text.replace(old, new, 1))

    return do


def truncate(path):
    """The second half is lost."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    """Nothing is left."""
    path.write_bytes(b"")


def swap_with(other):
    """Two honest files change places."""

    def do(path):
        ours, theirs = path.read_bytes(), Path(other).read_bytes()
        path.write_bytes(theirs)
        Path(other).write_bytes(ours)

    return do


def add(path):
    """A result that no job has made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")


def without_last_line(path):
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")


def halve_tokens(path):
    """A well-formed archive with other values of single images."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["final_tokens"] = arrays["final_tokens"] // 2
    np.savez(path, **arrays)


def recorded(**parts):
    """Parts of a record, without a new seal."""

    def do(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | parts, indent=1, sort_keys=True) + "\n")

    return do


def of_other_inputs(path, seal=sealed):
    """A record says that its job read other weights than those that are there."""
    content = json.loads(path.read_text())
    name = next(name for name in content["inputs"] if name.endswith("model.safetensors"))
    content["inputs"][name]["sha256"] = "0" * 64
    path.write_text(seal(content))


def behind(record, do):
    """Something that is done to the record of a file."""
    return lambda path: do(Path(record))


TAMPERINGS = {
    "an image": Tampering(f"{DATA}/images/training/a.png", flip),
    "an annotation": Tampering(f"{DATA}/annotations/training/a.png", flip),
    "the manifest of data": Tampering(f"{DATA}/manifest.json", change("{}", '{"images": 9}')),
    "the record of data": Tampering(f"{DATA}/record.json", recorded(device="another machine")),
    "a deleted image": Tampering(f"{DATA}/images/training/a.png", Path.unlink, Kind.MISSING),
    "weights": Tampering(f"{DENSE}/model.safetensors", flip),
    "weights of two runs, swapped": Tampering(f"{TAP}/model.safetensors", swap_with(f"{RANDOM}/model.safetensors")),
    "weights, deleted": Tampering(f"{DENSE}/model.safetensors", Path.unlink, Kind.MISSING),
    "a log of training": Tampering(f"{TAP}/log.csv", flip),
    "a log, emptied": Tampering(f"{TAP}/log.csv", empty),
    "the settings in a record": Tampering(f"{TAP}/run.json", recorded(spec={"seed": 7})),
    "the seal of a record": Tampering(f"{TAP}/run.json", recorded(seal="0" * 64)),
    "an input's hash in a record": Tampering(f"{TAP}/evaluation.json", lambda path: of_other_inputs(path, json.dumps)),
    "an input's hash, sealed again": Tampering(
        f"{TAP}/metrics.json", behind(f"{TAP}/evaluation.json", of_other_inputs), Kind.STALE
    ),
    "a record, cut off": Tampering(f"{TAP}/evaluation.json", truncate),
    "a record, deleted": Tampering(f"{TAP}/metrics.json", behind(f"{TAP}/evaluation.json", Path.unlink), Kind.UNKNOWN),
    "a score": Tampering(f"{TAP}/metrics.json", change("43.0", "88.3")),
    "a speed": Tampering(f"{TAP}/metrics.json", change("1.25", "1.95")),
    "scores of two runs, swapped": Tampering(f"{TAP}/metrics.json", swap_with(f"{RANDOM}/metrics.json")),
    "scores that nobody measured": Tampering(f"{TAP.replace('0.50', '0.70')}/metrics.json", add, Kind.UNKNOWN),
    "values of single images": Tampering(f"{TAP}/per_sample.npz", halve_tokens),
    "values of single images, cut off": Tampering(f"{TAP}/per_sample.npz", truncate),
    "values of single images, deleted": Tampering(f"{TAP}/per_sample.npz", Path.unlink, Kind.MISSING),
    "a picture of a run": Tampering(f"{TAP}/picture.png", flip),
    "an endpoint": Tampering(f"{RESULTS}/endpoint_seg.json", change("1.0", "0.5")),
    "a probe's values": Tampering(f"{PROBE}/values.csv", flip),
    "a probe's values of single images": Tampering(f"{PROBE}/per_sample.npz", flip),
    "a tidy row": Tampering(f"{RESULTS}/tidy_seg.csv", change("43.0", "44.0")),
    "a tidy row, deleted": Tampering(f"{RESULTS}/tidy_seg.csv", without_last_line),
    "a list of verified files": Tampering(f"{RESULTS}/verified_seg.json", recorded(inputs={})),
    "a table's cell": Tampering(f"{TABLE}.tex", change("43.0", "73.0")),
    "a table's interval": Tampering(f"{TABLE}.csv", flip),
    "a comparison": Tampering(f"{TABLE}.compare.csv", flip),
    "a comparison in words": Tampering(f"{TABLE}.compare.md", flip),
    "a figure for print": Tampering(f"{FIGURE}.pdf", flip),
    "a figure for the screen": Tampering(f"{FIGURE}.png", flip),
    "a figure's numbers": Tampering(f"{FIGURE}.csv", flip),
    "a figure's caption": Tampering(f"{FIGURE}.caption.md", flip),
    "a figure that nobody drew": Tampering(f"{RESULTS}/figures/fig_better.png", add, Kind.UNKNOWN),
    "a headline number": Tampering(f"{RESULTS}/headline.json", change("43.0", "53.0")),
    "a headline row": Tampering(f"{RESULTS}/headline.csv", without_last_line),
    "a verdict": Tampering(f"{RESULTS}/audit/audit.json", change("not measured", "supported")),
    "the words of the audit": Tampering(f"{RESULTS}/audit/audit.md", flip),
    "the page of the audit": Tampering(f"{RESULTS}/audit/audit.html", change("<title>", "<title>All supported: ")),
    "a published table": Tampering("paper_tables/tab_seg.tex", change("43.0", "73.0")),
    "a published comparison": Tampering("paper_tables/tab_seg.compare.csv", flip),
    "a published figure": Tampering("paper_figures/fig_insight.pdf", flip),
    "a published table that nobody built": Tampering("paper_tables/tab_new.tex", add, Kind.UNKNOWN),
}


def with_figure_and_probe(rng):
    """The files of a figure, of its copy, and of a probe, in the current folder."""
    cfg = load_scale("smoke")
    drawn = [f"{FIGURE}{suffix}" for suffix in (".pdf", ".png", ".csv", ".caption.md")]
    probed = [f"{PROBE}/{name}" for name in ("values.csv", "per_sample.npz")]
    for job, key, record, names in (
        ("figure", ("fig_insight",), f"{FIGURE}.record.json", drawn),
        ("probe", ProbeKey("seg", "recovery"), f"{PROBE}/probe.json", probed),
    ):
        outputs = [Path(name) for name in names]
        outputs[0].parent.mkdir(parents=True)
        for path in outputs:
            path.write_bytes(rng.bytes(200))
        stamp = JOBS[job].stamp(cfg, key)
        record_job(record, stamp, inputs=[f"{DENSE}/metrics.json"], outputs=outputs, started=datetime.now(UTC))
    publish("fig_insight", "smoke")


@pytest.fixture(scope="module")
def everything(finished_once, tmp_path_factory):
    """The finished project with every kind of file, and today's code and settings, which no tampering changes."""
    folder = tmp_path_factory.mktemp("everything") / "project"
    shutil.copytree(finished_once, folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        with_figure_and_probe(np.random.default_rng(0))
        return folder, Today(load_scale("smoke"))


@pytest.fixture
def tampered(everything, tmp_path, monkeypatch):
    """What is found after something was done to one file of a copy, which is the current folder."""
    folder, today = everything
    shutil.copytree(folder, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")

    def look(do=lambda path: None, name="results"):
        do(Path(name))
        return verify(today.cfg, today.staleness)

    return look


def test_without_any_nothing_is_found(tampered):
    require(tampered())


@pytest.mark.parametrize("case", TAMPERINGS.values(), ids=TAMPERINGS)
def test_a_tampering_is_found_and_named(tampered, case):
    found = tampered(case.do, case.name)
    assert (case.name, case.kind) in {(finding.path, finding.kind) for finding in found.findings}
    with pytest.raises(UserError, match=r": (edited|missing|stale|unknown): "):
        require(found)


def test_there_is_one_for_every_kind_of_file(tampered):
    tampered()
    folders = (Path(name) for name in ("data", "results", "paper_tables", "paper_figures"))
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file() and read_record(path) is None}
    covered = {Path(case.name).name for case in TAMPERINGS.values()}
    assert {path.name for path in files} - covered == {"README.md"}
    assert len(TAMPERINGS) >= 30
