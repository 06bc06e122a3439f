"""An archive of results: what is in it, and what unpacking refuses. The way through a clone: tests/workflow."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.staleness import Today
from tap.provenance.bundle import LIST, Unpacked, unpack_bundle, write_bundle
from tap.provenance.files import sha256_file
from tap.provenance.verify import verify
from tap.provenance.weight_selection import WeightSelection, claims_resting_on

ARCHIVE = Path("bundles/smoke.tar.gz")
RUNS = Path("results/smoke/runs/seg")


def staleness():
    return Today(smoke()).staleness


def smoke():
    return load_scale("smoke")


def with_hash(path: Path) -> Path:
    path.with_name(f"{path.name}.sha256").write_text(f"{sha256_file(path)}  {path.name}\n")
    return path


def archive_of(path: Path, *members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    """The archive of the project with further members."""
    write_bundle(smoke(), staleness(), path)
    with tarfile.open(path, "r:gz") as tar:
        kept = [(member, tar.extractfile(member).read()) for member in tar]
    with tarfile.open(path, "w:gz") as tar:
        for member, content in kept:
            tar.addfile(member, io.BytesIO(content))
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(content), kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO(content))
    return with_hash(path)


def state() -> dict[str, str]:
    return {str(path): sha256_file(path) for path in Path("results").rglob("*") if path.is_file()}


def test_there_and_back(finished):
    before = state()
    bundle = write_bundle(smoke(), staleness())
    assert (bundle.path, bundle.weights, bundle.of) == (ARCHIVE, 7, 7)
    assert bundle.weight_bytes == bundle.all_bytes == 1400
    first = ARCHIVE.read_bytes()
    assert write_bundle(smoke(), staleness()).path.read_bytes() == first, "equal results, equal bytes"
    shutil.rmtree("results")
    assert unpack_bundle(ARCHIVE, smoke()) == Unpacked(len(before), ())
    assert state() == before
    assert verify(smoke(), staleness()).findings == ()
    assert unpack_bundle(ARCHIVE, smoke()).new == 0, "all there"


def test_what_is_not_sound_is_not_packed(finished):
    (RUNS / "tap/r0.50/main/s0/metrics.json").write_text("{}")
    with pytest.raises(UserError, match=r"metrics.json: edited"):
        write_bundle(smoke(), staleness())
    assert not ARCHIVE.parent.exists()


def test_the_limit_is_checked_and_the_sizes_are_told(finished):
    with pytest.raises(UserError, match=r"would have 0.1 MB, more than 0.001 MB; the weights of 7 of 7 runs"):
        write_bundle(smoke(), staleness(), limit_mb=0.001)
    assert list(ARCHIVE.parent.iterdir()) == []


@pytest.mark.parametrize("damage", [lambda content: content[:-100], lambda content: content + b"x"])
def test_another_archive_than_that_of_the_hash_is_refused(finished, damage):
    write_bundle(smoke(), staleness())
    ARCHIVE.write_bytes(damage(ARCHIVE.read_bytes()))
    before = state()
    with pytest.raises(UserError, match=r"is not the file of smoke.tar.gz.sha256"):
        unpack_bundle(ARCHIVE, smoke())
    assert state() == before


def test_without_a_hash_nothing_is_unpacked(finished):
    write_bundle(smoke(), staleness())
    ARCHIVE.with_name("smoke.tar.gz.sha256").unlink()
    with pytest.raises(UserError, match=r"smoke.tar.gz.sha256: is not there"):
        unpack_bundle(ARCHIVE, smoke())


@pytest.mark.parametrize(
    "name", ["../stolen", "/tmp/stolen", "results/smoke/../../stolen", "results/smoke/x", "tap/x.py"]
)
def test_members_that_are_no_results_are_refused(finished, name):
    archive = archive_of(ARCHIVE, (name, b"x"))
    shutil.rmtree("results")
    with pytest.raises(UserError, match="which is no result of scale smoke; nothing was unpacked"):
        unpack_bundle(archive, smoke())
    assert not Path("results").exists()
    assert not list(finished.parent.rglob("stolen"))


def test_links_are_refused(finished):
    name = (RUNS / "tap/r0.50/main/s0/metrics.json").as_posix()
    with pytest.raises(UserError, match="which is no result"):
        unpack_bundle(archive_of(ARCHIVE, (name, b""), kind=tarfile.SYMTYPE), smoke())


def test_a_truncated_archive_with_a_hash_of_its_own_is_refused(finished):
    write_bundle(smoke(), staleness())
    ARCHIVE.write_bytes(ARCHIVE.read_bytes()[:-2000])
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack_bundle(with_hash(ARCHIVE), smoke())


def test_other_files_are_refused(finished):
    Path("other.tar.gz").write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack_bundle(with_hash(Path("other.tar.gz")), smoke())
    with tarfile.open("third.tar.gz", "w:gz") as tar:
        tar.add("params.yaml")
    with pytest.raises(UserError, match="is no archive of results"):
        unpack_bundle(with_hash(Path("third.tar.gz")), smoke())


def test_an_archive_of_another_scale_is_refused(finished):
    write_bundle(smoke(), staleness())
    with pytest.raises(UserError, match="is of scale smoke; unpack it with --scale smoke"):
        unpack_bundle(ARCHIVE, load_scale("desk"))


def test_a_file_that_is_there_with_other_content_is_kept(finished):
    write_bundle(smoke(), staleness())
    path = RUNS / "tap/r0.50/main/s0/metrics.json"
    path.write_text("mine")
    shutil.rmtree("results/smoke/tables")
    with pytest.raises(UserError, match=r"metrics.json: is there with other content"):
        unpack_bundle(ARCHIVE, smoke())
    assert path.read_text() == "mine"
    assert not Path("results/smoke/tables").exists()


def test_the_list_is_the_first_member(finished):
    write_bundle(smoke(), staleness())
    with tarfile.open(ARCHIVE) as tar:
        assert tar.next().name == LIST


def test_a_selection_has_its_runs_and_what_they_were_trained_from(finished):
    bundle = write_bundle(smoke(), staleness(), selection=WeightSelection(("seg",), ("tap",)))
    assert (bundle.path, bundle.weights, bundle.of) == (Path("bundles/smoke-seg-tap.tar.gz"), 3, 7)
    before = state()
    shutil.rmtree("results")
    unpacked = unpack_bundle(bundle.path, smoke())
    names = ("dense/r1.00/main", "dense/r1.00/random-encoder-start", "dense/r1.00/random-encoder", "random/r0.50/main")
    assert unpacked.left_out == tuple(f"{RUNS}/{name}/s0/model.safetensors" for name in names)
    assert state() == {name: digest for name, digest in before.items() if name not in unpacked.left_out}
    assert {finding.path for finding in verify(smoke(), staleness()).findings} == set(unpacked.left_out)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"tasks": ("det",)}, "--task det: is none of seg"),
        ({"methods": ("tome",)}, "--method tome: is none of dense, random, tap"),
        ({"seeds": (7,)}, "--seed 7: is none of 0"),
        ({"methods": ("tap",), "everything": True}, "--all: packs every run's weights"),
    ],
)
def test_a_selection_of_nothing_is_an_error(finished, selection, message):
    with pytest.raises(UserError, match=message):
        write_bundle(smoke(), staleness(), selection=WeightSelection(**selection))
    assert not ARCHIVE.parent.exists()


def test_claims_that_nobody_can_evaluate_anew_are_named(tmp_path):
    audit = tmp_path / "audit.json"
    runs = {"gain": ["seg/tap/r0.50/main/s0"], "loss": ["seg/dense/r1.00/main/s0"], "setting": []}
    claims = [{"id": name, "verdict": "supported", "parts": [{"runs": found}]} for name, found in runs.items()]
    claims.append({"id": "later", "verdict": "not measured", "parts": [{"runs": runs["gain"]}]})
    audit.write_text(json.dumps({"claims": claims}))
    assert claims_resting_on(audit) == ["gain", "loss"]
    assert claims_resting_on(audit, [f"{RUNS}/tap/r0.50/main/s0/model.safetensors"]) == ["gain"]
    assert claims_resting_on(audit, []) == []
    assert claims_resting_on(None) == []
