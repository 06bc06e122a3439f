"""A Slurm cluster on this machine: munge, a controller and two nodes on the loopback, all in one folder."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
NODES = ("n1", "n2")
CONF = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
SlurmdTimeout=6
KillWait=20
MinJobAge=600
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=9000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=9000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no cluster here; None where there can."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed; tests/cluster/install_slurm.sh installs them"
    if os.geteuid() != 0:
        return "the daemons of Slurm run as root"
    return None


class Cluster:
    """The daemons, started by `with`; each can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        self.folder = folder
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o400)
        (folder / "slurm.conf").write_text(
            CONF.format(host=socket.gethostname(), user=getpass.getuser(), folder=folder, ports=_free_ports(3))
        )
        # Snakemake's plugin clears Slurm's variables around `srun`, which elsewhere finds /etc/slurm/slurm.conf.
        programs = folder / "programs"
        programs.mkdir()
        (programs / "srun").write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {_program("srun")} "$@"\n')
        (programs / "srun").chmod(0o755)
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        self.start_munge()
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: self.call("sinfo", "-h", "-o", "%T").split() == ["idle"], 60, "the nodes are idle")
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.kill(name)
        for node in NODES:
            self._kill_jobs_of(node)

    def call(self, *command: str) -> str:
        """What a command of Slurm prints; nothing where it fails (the controller may be away)."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60).stdout

    def start_munge(self) -> None:
        """Starts what signs messages."""
        places = {name: f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed", "key")}
        self._start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *places.values())
        wait_for((self.folder / "munge.socket").exists, 20, "munge answers")

    def start_controller(self) -> None:
        """Starts the controller, which takes up the jobs that it knew."""
        self._start("slurmctld", "-D")
        wait_for(lambda: "UP" in self.call("scontrol", "ping"), 60, "the controller answers")

    def start_node(self, node: str) -> None:
        """Starts the daemon of a node."""
        self._start("slurmd", "-D", "-N", node, name=node)

    def kill(self, name: str) -> None:
        """Ends a daemon, by the signal that nothing can catch."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def lose_node(self, node: str) -> None:
        """What happens when a machine goes: its daemon and all that it ran are gone at once.

        The controller would notice after a while and let the jobs wait for two minutes before it starts them again;
        it is told, and asked not to.
        """
        lost = [job for job, (_, place, _) in self.jobs().items() if place == node]
        self.kill(node)
        self._kill_jobs_of(node)
        self.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")
        for job in lost:
            wait_for(lambda job=job: self.jobs().get(job, ("", ""))[0] == "PENDING", 60, "a lost job is queued again")
            self.call("scontrol", "update", f"JobId={job}", "StartTime=now")

    def jobs(self) -> dict[str, tuple[str, str, str]]:
        """State, node and comment (Snakemake's: its rule) of the jobs that are not through, by number."""
        lines = self.call("squeue", "-h", "-o", "%i|%T|%N|%k").splitlines()
        return {number: (state, node, comment) for number, state, node, comment in (x.split("|", 3) for x in lines)}

    def _start(self, program: str, *arguments: str, name: str | None = None) -> None:
        path = _program(program)
        assert path is not None
        with (self.folder / f"{name or program}.out").open("ab") as output:
            self._running[name or program] = subprocess.Popen(
                [path, *arguments], env=self.environment, stdout=output, stderr=output, start_new_session=True
            )

    def _kill_jobs_of(self, node: str) -> None:
        """Kills the daemons of job steps on a node of this cluster, and all that they started."""
        marks = {f"SLURMD_NODENAME={node}", f"SLURM_CONF={self.folder}/slurm.conf"}
        table = _processes()
        for step in [number for number, (_, name) in table.items() if name.startswith("slurmstepd")]:
            started = [number for number in table if _descends(table, number, step)]
            if any(marks <= _environment(number) for number in started):
                for number in (step, *started):
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and name of every process."""
    found = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            name, _, rest = Path(f"/proc/{number}/stat").read_text().partition("(")[2].rpartition(")")
            found[int(number)] = (int(rest.split()[1]), name)
    return found


def _descends(table: dict[int, tuple[int, str]], process: int, from_process: int) -> bool:
    parent, _ = table.get(process, (0, ""))
    return parent == from_process or (parent > 1 and _descends(table, parent, from_process))


def _environment(process: int) -> set[str]:
    with suppress(OSError):
        return set(Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0"))
    return set()


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: it is not within the time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in found]
    for server in found:
        server.close()
    return ports
