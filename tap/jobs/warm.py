"""Jobs that start from a process which has imported the libraries already.

Importing torch, timm and OpenMMLab's packages takes 3 to 6 s of a core, more than most jobs of the smoke scale
compute. So the first job of a workflow starts one process beside it that imports them once; each job is a fork of it,
in its own folder, with its own environment, arguments and output. The workflow names the socket in `VARIABLE`, and
`tap/__main__.py` asks here before it imports anything.

A job that somebody calls by hand imports as always, and so does every job where the device is not a CPU (CUDA does not
outlive a fork) or where the code has changed since the process began, so that no job runs other code than is recorded.
The process ends with the workflow, and a job with the one that waits for it.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tap.provenance.orphans import GRACE_S, end_with_workflow, is_alive

VARIABLE = "TAP_WARM_SOCKET"
"""Environment variable with the path of the socket, which is named by the number of the workflow's process."""

TASKS_VARIABLE = "TAP_WARM_TASKS"
"""The same with the workflow's tasks, apart by commas: the process imports no other task's libraries."""

_SERVER = "import sys; from tap import cli; from tap.jobs import warm; warm.serve(sys.argv[1], cli.run)"
_PATIENCE_S = 60.0
_POLL_S = 0.02
_CHUNK = 65536
_PACKAGE = Path(__file__).resolve().parents[1]


def run_warm(arguments: list[str]) -> int | None:
    """Has a command run in a fork of the workflow's process, with this process's output, environment and folder.

    Args:
        arguments: of the command line, its name first.

    Returns:
        Its exit status (above 128: the signal that ended it); None where there is no such process, and the command is
        to be run here.
    """
    place = os.environ.get(VARIABLE)
    if not place or not _is_private(Path(place).parent):
        return None
    end_with_workflow()  # also while nothing answers yet
    if (connection := _connect(place)) is None:
        return None
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd(), "code": _code()}
    with connection:
        message = json.dumps(asked).encode()
        descriptors = array.array("i", [0, 1, 2])
        try:
            connection.sendmsg([len(message).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            connection.sendall(message)
            answer = connection.recv(16)
        except OSError:
            return None  # the process is at its end; nothing has begun
        if answer != b"begun":
            return None
        return _status(connection)


def _status(connection: socket.socket) -> int:
    """Waits for the job; its end without a word is that of a process that was killed."""
    answer = connection.recv(16)
    return int(answer) if answer else 128 + signal.SIGKILL


def _connect(place: str) -> socket.socket | None:
    """A connection to the workflow's process, which is started by whoever finds none."""
    deadline = time.monotonic() + _PATIENCE_S
    server: subprocess.Popen[bytes] | None = None
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(place)
            return connection
        except FileNotFoundError:
            connection.close()
            if server is not None and server.poll() is not None:
                return None  # it could not start
            if server is None:
                server = subprocess.Popen(
                    [sys.executable, "-c", _SERVER, place],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,  # which this job's reader would wait for
                    stderr=subprocess.DEVNULL,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},  # no pool of threads may exist before a fork
                )
        except OSError:
            connection.close()
        time.sleep(_POLL_S)
    return None


def _is_private(folder: Path) -> bool:
    """Makes the folder of the socket, and says whether it is this user's alone: who reaches it can run commands."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o077


def _code() -> list[list[object]]:
    """What tells whether the package's files are still those that were imported."""
    files = sorted(_PACKAGE.rglob("*.py"))
    return [[str(file), (found := file.stat()).st_mtime_ns, found.st_size] for file in files]


def socket_of(process: int) -> str:
    """The path of the socket of a workflow that runs in a process."""
    return f"{tempfile.gettempdir()}/tap-{os.getuid()}/{process}.socket"


def preload() -> None:
    """Imports what most jobs of the workflow's tasks need and what takes long."""
    import tap.engine.job
    import tap.engine.joint
    import tap.paper.figures.build  # noqa: F401  all three for what importing them leaves behind
    from tap.task_facts import TASKS

    for task in os.environ[TASKS_VARIABLE].split(","):
        importlib.import_module(TASKS[task].pipeline.partition(":")[0])


def serve(place: str, command: Callable[[], None], prepare: Callable[[], None] = preload) -> None:
    """Imports, then forks a job for each connection, until the workflow ends.

    Args:
        place: path of the socket.
        command: runs what `sys.argv` says.
        prepare: what is done once, before the first fork.
    """
    end_with_workflow()
    for other in Path(place).parent.glob("*.socket"):
        if not is_alive(int(other.stem)):
            other.unlink(missing_ok=True)  # of a workflow that was killed
    listening = socket.socket(socket.AF_UNIX)
    own = f"{place}.{os.getpid()}"
    listening.bind(own)
    listening.listen(64)
    try:
        os.link(own, place)  # whoever is first serves
    except FileExistsError:
        return
    finally:
        os.unlink(own)
    code = _code()
    prepare()
    gc.freeze()  # data sets collect garbage when they are opened, and what imports made is none
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _supervise(connection, code, command)
        connection.close()


def _supervise(connection: socket.socket, code: list[list[object]], command: Callable[[], None]) -> NoReturn:
    """Runs one job in a fork of its own and tells its status; ends it when nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descriptors = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * descriptors.itemsize))
    for _level, _kind, data in ancillary:
        descriptors.frombytes(data)
    size = int.from_bytes(head, "big")
    message = b""
    while len(message) < size:
        chunk = connection.recv(min(_CHUNK, size - len(message)))
        if not chunk:
            os._exit(1)
        message += chunk
    asked = json.loads(message)
    if asked["code"] != code:
        connection.sendall(b"changed")
        os._exit(0)
    connection.sendall(b"begun")
    job = os.fork()
    if job == 0:
        connection.close()
        _become(asked, list(descriptors), command)
    for descriptor in descriptors:
        os.close(descriptor)
    while True:
        ended, status = os.waitpid(job, os.WNOHANG)
        if ended:
            code_of = os.waitstatus_to_exitcode(status)
            connection.sendall(str(code_of if code_of >= 0 else 128 - code_of).encode())
            os._exit(0)
        if select.select([connection], [], [], _POLL_S)[0] and not connection.recv(1):
            _end(job)
            os._exit(0)


def _end(job: int) -> None:
    """Asks a job to end, since a training keeps a state then; whatever is left after a while is killed."""
    os.kill(job, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while not os.waitpid(job, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(job, signal.SIGKILL)  # files appear by rename and trainings resume: nothing is half done
            os.waitpid(job, 0)
            return
        time.sleep(_POLL_S)


def _become(asked: dict[str, object], descriptors: list[int], command: Callable[[], None]) -> NoReturn:
    """Turns this fork into the job: its output, folder, environment and arguments; then the command."""
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
        os.close(given)
    os.chdir(str(asked["folder"]))
    os.environ.clear()
    os.environ.update({str(name): str(value) for name, value in dict(asked["environment"]).items()})  # type: ignore[call-overload]
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))  # as after an import of its own
    sys.argv = [str(argument) for argument in asked["arguments"]]  # type: ignore[attr-defined]
    os._exit(_exit_status(command))


def _exit_status(call: Callable[[], None]) -> int:
    """Runs the command as Python runs a program, and says what it would exit with."""
    try:
        call()
        status: int | str | None = 0
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status or 0
