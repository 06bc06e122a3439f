"""Log files and what a training shows."""

import csv

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from tap.engine.reporting import Display, write_log

ROWS = [
    {"step": 2.0, "lr": 1e-3, "loss": 1 / 3},
    {"step": 4.0, "lr": 1.23456789e-7, "loss": 0.25, "penalty": 2.0},
]


def test_a_log_has_a_column_for_everything_and_a_gap_where_a_row_lacks_it(tmp_path):
    path = write_log(tmp_path / "log.csv", ROWS)
    assert path.read_text().splitlines() == [
        "step,lr,loss,penalty",
        "2,0.001,0.33333333,",
        "4,1.2345679e-07,0.25,2",
    ]
    with path.open() as file:
        assert [row["penalty"] for row in csv.DictReader(file)] == ["", "2"]


def test_a_file_gets_plain_lines_with_loss_rate_and_time_left(capsys):
    with Display("cls/tap", total=4, done=0, images_per_step=8) as display:
        display.note("goes on at step 0 of 4 [really]")
        for row in ROWS:
            display.step(int(row["step"]))
            display.row(row)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "cls/tap: goes on at step 0 of 4 [really]"
    assert lines[-1].startswith("cls/tap: step 4/4  loss 0.2500  lr 1.23e-07  ")
    assert lines[-1].endswith("images/s  0 s left")
    assert len(lines) == 2  # not one line per row


def test_other_processes_are_silent(capsys):
    with Display("cls/tap", total=4, done=0, images_per_step=8, quiet=True) as display:
        display.note("note")
        display.row(ROWS[1] | {"step": 4.0})
    assert capsys.readouterr().err == ""


def test_curves_of_a_resumed_training_have_each_step_once(tmp_path, monkeypatch):
    # Files of one second, which two processes do not make, are read in the order of names that end in a number.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    for done, steps in ((0, (2, 4, 6)), (4, (6, 8))):  # killed after step 6, resumed from the state of step 4
        with Display("cls/tap", total=8, done=done, images_per_step=8, events=tmp_path, quiet=True) as display:
            for step in steps:
                display.row({"step": float(step), "lr": 0.1, "loss": step / 10 + done})
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("train/loss")
    assert [(event.step, round(event.value, 3)) for event in events] == [(2, 0.2), (4, 0.4), (6, 4.6), (8, 4.8)]
