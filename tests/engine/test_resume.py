"""Resume states: whole or absent, checked, of one identity, and never a reason to stop."""

import threading

import pytest
import torch

from tap.engine.resume import ResumeStates
from tap.errors import UserError

IDENTITY = {"settings": {"train": {"lr": 0.1}, "seed": 0}, "code": "abc"}


@pytest.fixture
def lines():
    return []


@pytest.fixture
def states(tmp_path, lines):
    return ResumeStates(tmp_path, IDENTITY, lines.append)


def content(step):
    return {"step": step, "weights": torch.full((50,), float(step)), "rows": [{"loss": 0.1}], "none": None}


def files(folder):
    return sorted(folder.glob("*.state"))


def test_the_newest_state_comes_back_as_it_was(states, lines):
    assert states.load() is None
    for step in (10, 20, 30):
        states.save(step, content(step))
    found = states.load()
    assert torch.equal(found.pop("weights"), torch.full((50,), 30.0))
    assert found == {"step": 30, "rows": [{"loss": 0.1}], "none": None}
    assert lines == []


def test_only_two_states_are_kept(states, tmp_path):
    for step in range(5):
        states.save(step, content(step))
    assert [path.name[13:27] for path in files(tmp_path)] == ["step-000000003", "step-000000004"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-1] + b"!"]
)
def test_a_damaged_state_is_set_aside_by_name_and_the_one_before_it_used(states, tmp_path, lines, damage):
    states.save(10, content(10))
    states.save(20, content(20))
    newest = files(tmp_path)[-1]
    newest.write_bytes(damage(newest.read_bytes()))
    assert states.load()["step"] == 10
    assert len(lines) == 1
    assert newest.stem in lines[0]
    states.save(30, content(30))
    assert states.load()["step"] == 30
    assert len(lines) == 1


def test_with_every_state_damaged_the_training_starts_over(states, tmp_path, lines):
    for step in (10, 20):
        states.save(step, content(step))
    for path in files(tmp_path):
        path.write_bytes(b"x")
    assert states.load() is None
    assert len(lines) == 2


def test_states_of_other_settings_are_named_and_left_alone(states, tmp_path, lines):
    states.save(10, content(10))
    before = files(tmp_path)
    other = ResumeStates(tmp_path, {"settings": {"train": {"lr": 0.2}, "seed": 0}, "code": "abd"}, lines.append)
    assert other.load() is None
    assert "step 10" in lines[0]
    assert "code: abc -> abd, settings.train.lr: 0.1 -> 0.2" in lines[0]
    other.save(5, content(5))
    other.save(7, content(7))
    other.save(8, content(8))
    assert set(before) < set(files(tmp_path))
    assert states.load()["step"] == 10
    assert other.load()["step"] == 8


def test_a_file_of_another_kind_is_named_and_ignored(states, tmp_path, lines):
    (tmp_path / "mine.state").write_bytes(b"something else")
    assert states.load() is None
    assert "mine.state" in lines[0]


def test_what_a_killed_writer_left_is_removed_at_the_start(states, tmp_path):
    torn = tmp_path / ".abc.1234.tmp.state"
    torn.write_bytes(b"half")
    with states.held():
        assert not torn.exists()


def test_no_state_is_left_after_the_end_and_the_end_is_remembered(states, tmp_path, lines):
    with states.held():
        states.save(10, content(10))
        files(tmp_path)[0].with_suffix(".damaged").write_bytes(b"x")
        assert not states.finished
        states.finish()
    assert states.finished
    assert sorted(path.name for path in tmp_path.iterdir()) == ["finished", "identity.json", "lock"]
    assert not ResumeStates(tmp_path, {"other": 1}, lines.append).finished


def test_a_second_process_waits_for_the_first(states, tmp_path, lines):
    entered = []
    second = ResumeStates(tmp_path, IDENTITY, lines.append)

    def enter():
        with second.held():
            entered.append(True)

    with states.held():
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join(timeout=0.3)
        assert not entered
    thread.join(timeout=5)
    assert entered
    assert lines == ["another process is training this run; waiting for its end"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path, lines):
    (tmp_path / "file").write_text("in the way")
    states = ResumeStates(tmp_path / "file" / "run", IDENTITY, lines.append)
    with pytest.raises(UserError, match="cannot be written"), states.held():
        pass
