"""Where public data comes from: a chain of sources, tried in order, that all have to deliver the same bytes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from tap.errors import UserError
from tap.provenance.files import make_folder, unwritable

T = TypeVar("T")
_TOOL_TIMEOUT_S = 900
_CHUNK = 1 << 16


class UnavailableError(Exception):
    """A source has nothing to offer on this machine; the chain remembers why and goes on."""


@dataclass(frozen=True)
class Source:
    """One place that may have the data.

    Attributes:
        name: what a message calls it.
        fetch: gives a file or folder on the disk, or raises `UnavailableError`.
        named_by_user: whether a person asked for exactly this source: then its faults are theirs to know, and nothing
            else is tried in its place.
    """

    name: str
    fetch: Callable[[], Path]
    named_by_user: bool = False


def first_accepted(what: str, sources: Sequence[Source], accept: Callable[[Path], T], remedy: str) -> T:
    """Result of `accept` for the first source that delivers and whose content is right.

    Args:
        what: name of the data in messages.
        sources: in the order in which they are tried.
        accept: checks and takes over what a source gave; raises `UserError` on wrong content.
        remedy: what a person can do when no source works.

    Raises:
        UserError: the source that the person named is missing or wrong, or no source works; then with every reason.
    """
    reasons = []
    for source in sources:
        try:
            return accept(source.fetch())
        except UnavailableError as error:
            if source.named_by_user:
                raise UserError(f"{what}: {error}") from error
            reasons.append(f"  {source.name}: {error}")
        except UserError as error:
            if source.named_by_user:
                raise
            reasons.append(f"  {source.name}: {error}")
    raise UserError(f"{what}: no source delivered the data; {remedy}. Tried:\n" + "\n".join(reasons))


def named_path(path: str | Path) -> Source:
    """The file or folder that a person gave."""
    path = Path(path).expanduser()

    def fetch() -> Path:
        if not path.exists():
            raise UnavailableError(f"{path} does not exist; give an existing file or folder")
        return path

    return Source(str(path), fetch, named_by_user=True)


def installed_folder(path: str | Path) -> Source:
    """A folder where a system package puts the data."""
    path = Path(path)

    def fetch() -> Path:
        if not path.is_dir():
            raise UnavailableError("not there")
        return path

    return Source(f"installed files in {path}", fetch)


def debian_package(package: str, subfolder: str, workdir: Path) -> Source:
    """A Debian package, downloaded and unpacked below `workdir` without installing it (no root needed)."""

    def fetch() -> Path:
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise UnavailableError(f"this machine has no {tool}")
        make_folder(workdir)
        _run_tool(["apt-get", "download", package], workdir)
        archives = sorted(workdir.glob(f"{package}_*.deb"))
        if not archives:
            raise UnavailableError(f"apt-get download left no {package}_*.deb")
        _run_tool(["dpkg-deb", "-x", str(archives[-1]), str(workdir / "unpacked")], workdir)
        return workdir / "unpacked" / subfolder

    return Source(f"Debian package {package}", fetch)


def python_wheel(project: str, version: str, workdir: Path) -> Source:
    """A wheel from the package index that this machine's pip is set up for; nothing is installed."""

    def fetch() -> Path:
        pip = _pip_command()
        if pip is None:
            raise UnavailableError("this machine has neither pip nor uv")
        make_folder(workdir)
        pinned = f"{project}=={version}"
        _run_tool([*pip, "download", "--no-deps", "--quiet", "--dest", str(workdir), pinned], workdir)
        wheels = sorted(workdir.glob(f"{project}-{version}-*.whl"))
        if not wheels:
            raise UnavailableError(f"pip download left no wheel of {pinned}")
        return wheels[0]

    return Source(f"pip download {project}=={version}", fetch)


def public_download(files: dict[str, tuple[str, ...]], workdir: Path, timeout_s: float = 30.0) -> Source:
    """Public URLs, through pooch's downloader.

    Args:
        files: alternative URLs of each wanted file, by its name.
        workdir: scratch folder for the files; what `fetch` gives is this folder. Whoever accepts it checks the content.
        timeout_s: seconds without an answer after which a URL is given up.
    """

    def fetch() -> Path:
        with byte_progress() as progress:
            for name, urls in files.items():
                _download(workdir / name, urls, timeout_s, progress)
        return workdir

    return Source("public download", fetch)


def byte_progress() -> Progress:
    """A progress bar on the error stream that counts bytes; silent where that is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class _PoochBar:
    """Shows pooch's counting in a rich bar; pooch sets `total` and calls the three methods."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.progress = progress
        self.task = progress.add_task(name, total=None)
        self.total = 0

    def update(self, count: int) -> None:
        """Adds downloaded bytes."""
        self.progress.update(self.task, total=self.total or None, advance=count)

    def reset(self) -> None:
        """Called at the end, before pooch sets the count to the total."""
        self.progress.reset(self.task)

    def close(self) -> None:
        """Called when the file is complete."""
        self.progress.remove_task(self.task)


def _download(path: Path, urls: Sequence[str], timeout_s: float, progress: Progress) -> None:
    reasons = []
    for url in urls:
        bar = _PoochBar(progress, path.name)
        try:
            pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=timeout_s)(url, str(path), None)
        except requests.exceptions.RequestException as error:
            reasons.append(f"{url}: {type(error).__name__}")
        except OSError as error:
            raise unwritable(path, error) from error
        else:
            return
    raise UnavailableError("; ".join(reasons))


def _pip_command() -> list[str] | None:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if shutil.which("pip3") is not None:
        return ["pip3"]
    if shutil.which("uv") is not None:
        return ["uv", "tool", "run", "pip"]
    return None


def _run_tool(command: list[str], workdir: Path) -> None:
    """Runs a download tool quietly.

    Raises:
        UnavailableError: it failed, or took too long; with the last line it said.
    """
    try:
        done = subprocess.run(
            command, cwd=workdir, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{command[0]} took more than {_TOOL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise UnavailableError(f"{command[0]} failed: {lines[-1] if lines else f'exit status {done.returncode}'}")
