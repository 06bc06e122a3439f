"""A partition that does not exist is told before anything is submitted."""

import pytest

from tap.errors import UserError
from tap.jobs.slurm_partitions import refuse_unknown_partitions


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    """A `sinfo` that says what it is told to."""

    def make(script):
        program = tmp_path / "sinfo"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return make


@pytest.mark.parametrize("name", ["main", "long", "main,long"])
def test_partitions_that_are_there_pass(sinfo, name):
    sinfo("echo main; echo long; echo main")
    refuse_unknown_partitions({"slurm_partition": name})


@pytest.mark.parametrize("name", ["gpus", "main,gpus"])
def test_one_that_is_not_is_named_beside_those_that_are(sinfo, name):
    sinfo("echo main; echo long")
    with pytest.raises(UserError, match=r"^here: this cluster has no partition 'gpus'; it has long, main \(`sinfo`\)"):
        refuse_unknown_partitions({"here": name})


@pytest.mark.parametrize("script", ["exit 1", "echo main; exit 1", ":"])
def test_nothing_is_said_where_sinfo_does_not_answer(sinfo, script):
    sinfo(script)
    refuse_unknown_partitions({"here": "gpus"})


def test_nobody_is_asked_where_nothing_names_a_partition(sinfo, tmp_path):
    sinfo(f"touch {tmp_path}/asked")
    refuse_unknown_partitions({})
    assert not (tmp_path / "asked").exists()
