"""What a training says while it runs: log rows, TensorBoard events, a tracker, and a progress bar or plain lines.

Rows are functions of the steps alone (no times, no machine), and they travel in the resume state: the log of a run that
was killed and went on is the same file, byte for byte, as that of a run in one go.
"""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tap.engine.trackers import Tracker, open_tracker, tensorboard
from tap.errors import UserError
from tap.provenance.files import atomic_write

Row = dict[str, float]
_LINE_SECONDS = 30.0


def write_log(path: Path, rows: Sequence[Row]) -> Path:
    """Writes log rows as CSV; the columns are those of all rows, in the order of their first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows({name: f"{value:.8g}" for name, value in row.items()} for row in rows)
    return atomic_write(path, text.getvalue())


class Display:
    """Shows a training on the standard error stream, and keeps its curves for TensorBoard and a tracker.

    A terminal gets a bar with loss, learning rate, images per second and the time left; a file gets a line at times.

    Args:
        title: what runs.
        total: steps of the whole training.
        done: steps that an earlier process did.
        images_per_step: for the rate.
        events: folder of the TensorBoard events; None keeps none.
        quiet: shows nothing (processes other than the first).
    """

    def __init__(
        self, title: str, total: int, done: int, images_per_step: int, events: Path | None = None, quiet: bool = False
    ) -> None:
        self._title, self._total, self._first, self._images, self._quiet = title, total, done, images_per_step, quiet
        self._console = Console(stderr=True, quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, completed=done, state="")
        self._folder = events
        self._events: Tracker | None = None
        self._tracker: Tracker | None = None
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Display:
        self._hook, threading.excepthook = threading.excepthook, self._of_thread
        try:
            if self._folder is not None:
                self._events = tensorboard(self._folder, self._first)
                self._tracker = open_tracker(self._title, self._folder)
        except UserError:
            threading.excepthook = self._hook
            raise
        self._bar.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._bar.stop()
        self._track(lambda tracker: tracker.close(kind is not None))
        try:
            if self._events is not None:
                self._events.close(kind is not None)
        finally:
            threading.excepthook = self._hook

    def note(self, text: str) -> None:
        """Shows a line that a person should not miss."""
        if not self._quiet:
            self._bar.console.print(f"{self._title}: {text}", markup=False, highlight=False, soft_wrap=True)

    def step(self, done: int) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=done)

    def row(self, row: Row) -> None:
        """Shows a log row, and adds it to the TensorBoard curves."""
        done, now = int(row["step"]), time.monotonic()
        rate = (done - self._first) / max(now - self._started, 1e-9)
        lanes = [name.removesuffix(".share") for name in row if name.endswith(".share")]
        parts = "".join(f" {lane} {row[f'{lane}.loss']:.3f} ({row[f'{lane}.share']:.0%})" for lane in lanes)
        state = f"loss {row['loss']:.4f}{parts}  lr {row['lr']:.2e}  {rate * self._images:.0f} images/s"
        self._bar.update(self._task, completed=done, state=state)
        if not self._console.is_terminal and (now - self._last_line > _LINE_SECONDS or done == self._total):
            left = (self._total - done) / rate if rate else 0.0
            self.note(f"step {done}/{self._total}  {state}  {left:.0f} s left")
            self._last_line = now
        values = {f"train/{name}": value for name, value in row.items() if name != "step"}
        if self._events is not None:
            self._events.log(values, done)
        self._track(lambda tracker: tracker.log(values, done))

    def _track(self, call: Callable[[Tracker], object]) -> None:
        """Tells the tracker; what goes wrong there (its server, the network) is said once, and the training goes on."""
        if self._tracker is None:
            return
        try:
            call(self._tracker)
        except Exception as error:  # of a package and a network that are not ours; days of training hang on it
            self._tracker = None
            self.note(f"no longer tracked: {type(error).__name__}: {error}")

    def _of_thread(self, error: threading.ExceptHookArgs) -> None:
        """No traceback of TensorBoard's thread where the disk is full: `row` and the end say it in a line."""
        if not isinstance(error.exc_value, OSError):
            self._hook(error)
