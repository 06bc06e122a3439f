import gzip
import hashlib
import json
import os

import numpy as np
import pytest

from tap.errors import UserError
from tap.tasks.classification import fashion
from tap.tasks.classification.fashion import IdxFile


@pytest.fixture
def packed(idx_root, tmp_path):
    """The tiny set as a person would have it (`.gz`), and what to expect of it."""
    source = tmp_path / "source"
    source.mkdir()
    files = []
    for path in sorted(idx_root.iterdir()):
        content = path.read_bytes()
        (source / f"{path.name}.gz").write_bytes(gzip.compress(content))
        files.append(IdxFile(path.name, len(content), hashlib.sha256(content).hexdigest()))
    return source, tuple(files)


def snapshot(root):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.iterdir()}


def test_prepare_twice(packed, tmp_path):
    source, files = packed
    manifest = fashion.prepare(tmp_path / "data", source, files)
    assert {name: entry["sha256"] for name, entry in json.loads(manifest.read_text())["files"].items()} == {
        file.name: file.sha256 for file in files
    }
    before = snapshot(tmp_path / "data")
    assert fashion.prepare(tmp_path / "data", tmp_path / "no source is needed now", files) == manifest
    assert snapshot(tmp_path / "data") == before


def test_prepare_takes_plain_files_too(packed, idx_root, tmp_path):
    fashion.prepare(tmp_path / "data", idx_root, packed[1])
    assert all(
        (tmp_path / "data" / file.name).read_bytes() == (idx_root / file.name).read_bytes() for file in packed[1]
    )


def test_prepare_goes_on_and_mends_a_damaged_file(packed, tmp_path):
    source, files = packed
    fashion.prepare(tmp_path / "data", source, files)
    kept = snapshot(tmp_path / "data")[files[0].name]
    (tmp_path / "data" / files[1].name).write_bytes(b"cut")
    (tmp_path / "data" / files[2].name).unlink()
    (source / f"{files[0].name}.gz").unlink()  # not needed again
    fashion.prepare(tmp_path / "data", source, files)
    assert snapshot(tmp_path / "data")[files[0].name] == kept
    assert all(hashlib.sha256((tmp_path / "data" / f.name).read_bytes()).hexdigest() == f.sha256 for f in files)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def other_content(path):
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[-1] ^= 1
    path.write_bytes(gzip.compress(bytes(content)))


def too_short(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))


def not_gzip(path):
    path.write_bytes(b"<html>")


@pytest.mark.parametrize(
    ("damage", "message"),
    [(truncated, "truncated"), (other_content, "wrong sha256"), (too_short, "bytes of content"), (not_gzip, "gzip")],
)
def test_a_wrong_file_is_refused_by_name(packed, tmp_path, damage, message):
    source, files = packed
    damage(source / f"{files[1].name}.gz")
    with pytest.raises(UserError, match=message) as error:
        fashion.prepare(tmp_path / "data", source, files)
    assert f"{files[1].name}.gz" in str(error.value)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [files[0].name]


def test_missing_source_and_missing_file(packed, tmp_path, monkeypatch):
    source, files = packed
    with pytest.raises(UserError, match="does not exist"):
        fashion.prepare(tmp_path / "data", tmp_path / "nowhere", files)
    (source / f"{files[0].name}.gz").unlink()
    monkeypatch.setenv(fashion.SOURCE_VARIABLE, str(source))
    with pytest.raises(UserError, match="has neither"):
        fashion.prepare(tmp_path / "data", None, files)
    with pytest.raises(UserError, match="not a folder"):
        fashion.prepare(tmp_path / "data", source / f"{files[1].name}.gz", files)


def test_unwritable_folder(packed, tmp_path):
    (tmp_path / "data").write_text("a file where a folder should be")
    with pytest.raises(UserError, match="cannot be written"):
        fashion.prepare(tmp_path / "data", *packed)
    assert (tmp_path / "data").read_text() == "a file where a folder should be"


def test_the_real_set_is_pinned_to_its_documented_sizes():
    sizes = {file.name: file.size for file in fashion.FILES}
    assert sizes["train-images-idx3-ubyte"] == 16 + 60_000 * 28 * 28
    assert sizes["t10k-labels-idx1-ubyte"] == 8 + 10_000
    assert len({file.sha256 for file in fashion.FILES}) == 4


def test_reading(idx_root):
    images = fashion.read_images(idx_root / "train-images-idx3-ubyte")
    assert images.shape == (100, 28, 28)
    assert images.dtype == np.uint8
    assert fashion.read_labels(idx_root / "t10k-labels-idx1-ubyte", 10).tolist() == [*range(10)] * 4


def test_bad_idx_files(idx_root):
    labels = idx_root / "train-labels-idx1-ubyte"
    with pytest.raises(UserError, match="label 7 of image 7 is out of range for 7 classes"):
        fashion.read_labels(labels, 7)
    with pytest.raises(UserError, match="not an idx file"):
        fashion.read_images(labels)
    os.truncate(labels, 50)
    with pytest.raises(UserError, match="truncated"):
        fashion.read_labels(labels, 10)
    with pytest.raises(UserError, match="tap data prepare cls"):
        fashion.read_labels(idx_root / "nothing", 10)
