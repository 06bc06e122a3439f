import errno
import os
import signal
import subprocess
import sys

import pytest

from tap.errors import UserError
from tap.provenance.locks import hold_lock, waiting_lock

HOLDER = (
    "import sys, time; from tap.provenance.locks import hold_lock; handle = hold_lock(sys.argv[1]);"
    "print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    path = tmp_path / "deep" / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield path, process
        process.kill()


def test_one_holder_at_a_time_and_none_after_a_kill(holder):
    path, process = holder
    assert hold_lock(path) is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    handle = hold_lock(path)
    assert handle is not None
    os.close(handle)


def test_waits_for_the_holder_and_says_so_once(holder):
    path, process = holder
    told = []

    def on_wait():
        told.append(process.poll())
        process.kill()

    with waiting_lock(path, on_wait) as waited:
        assert waited
        assert hold_lock(path) is None
    assert told == [None]


def test_does_not_wait_for_nobody(tmp_path):
    with waiting_lock(tmp_path / "lock", lambda: pytest.fail("waited")) as waited:
        assert not waited


@pytest.mark.parametrize("take", [hold_lock, lambda path: waiting_lock(path, print).__enter__()])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, take):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UserError, match=r"lock: this file system has no locks \(No locks available\).*local disk"):
        take(tmp_path / "lock")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/lock: cannot be written"):
        hold_lock(tmp_path / "file" / "lock")
