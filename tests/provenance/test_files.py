import hashlib
import os
import stat

import pytest

from tap.errors import UserError
from tap.provenance.files import atomic_write, remove_torn, sha256_file


def test_writes_bytes_text_and_by_function(tmp_path):
    atomic_write(tmp_path / "deep" / "a.bin", b"\x00\x01")
    atomic_write(tmp_path / "b.txt", "möre\n")
    atomic_write(tmp_path / "c.npz", lambda temporary: temporary.write_bytes(b"by function"))
    assert (tmp_path / "deep" / "a.bin").read_bytes() == b"\x00\x01"
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "möre\n"
    assert (tmp_path / "c.npz").read_bytes() == b"by function"


def test_a_failing_writer_leaves_the_old_file_and_no_litter(tmp_path):
    target = atomic_write(tmp_path / "a.txt", "old")

    def fail(temporary):
        temporary.write_text("half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        atomic_write(target, fail)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path):
    target = atomic_write(tmp_path / "a.txt", "old")

    def write(temporary):
        assert temporary.parent == target.parent
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert target.read_text() == "old"

    atomic_write(target, write)
    assert target.read_text() == "new"


def test_the_file_gets_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")

    def write_a_private_file(temporary):
        temporary.unlink()
        temporary.touch(mode=0o600)

    for content in ("x", write_a_private_file):
        target = atomic_write(tmp_path / "a.txt", content)
        assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"file/a\.txt: cannot be written"):
        atomic_write(tmp_path / "file" / "a.txt", "y")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"folder: cannot be written"):
        atomic_write(tmp_path / "folder", "y")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_sha256_of_more_than_one_piece(tmp_path):
    content = os.urandom((1 << 20) + 17)
    (tmp_path / "a").write_bytes(content)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()
    with pytest.raises(UserError, match="missing: cannot be read"):
        sha256_file(tmp_path / "missing")


def test_only_the_torn_files_of_the_given_ones_go(tmp_path):
    for name in (".a.0123abcd.tmp.csv", ".a.0123abcd.tmp.json", ".b.0123abcd.tmp", ".a.tmp.csv", "a.csv"):
        (tmp_path / name).write_text("")
    remove_torn([tmp_path / "a.csv", tmp_path / "b"])
    assert sorted(os.listdir(tmp_path)) == [".a.0123abcd.tmp.json", ".a.tmp.csv", "a.csv"]


def test_what_a_killed_writer_leaves_counts_as_torn(tmp_path):
    def write(temporary):
        temporary.write_text("half")
        (tmp_path / "left").write_text(temporary.name)

    atomic_write(tmp_path / "a.txt", write)
    left = tmp_path / (tmp_path / "left").read_text()
    left.write_text("half")
    remove_torn([tmp_path / "a.txt"])
    assert not left.exists()
