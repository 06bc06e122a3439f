"""Fashion-MNIST: fetching, verifying and reading the four idx files (MIT licence, Zalando Research)."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tap.errors import UserError
from tap.provenance.files import atomic_write, sha256_file
from tap.tasks.sources import (
    Source,
    UnavailableError,
    byte_progress,
    debian_package,
    first_accepted,
    installed_folder,
    named_path,
    public_download,
)

SOURCE_VARIABLE = "TAP_FASHION_MNIST"
IMAGE_SIZE = 28
CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

_MANIFEST = "manifest.json"
_PACKAGE = "dataset-fashion-mnist"
_PACKAGE_FOLDER = "usr/share/datasets/fashion-mnist"
_URLS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class IdxFile:
    """One file of the set, as it is after decompression."""

    name: str
    size: int
    sha256: str


FILES = (
    IdxFile("train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    IdxFile("train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    IdxFile("t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    IdxFile("t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)


def prepare(root: str | Path, source: str | Path | None = None, files: tuple[IdxFile, ...] = FILES) -> Path:
    """Puts the four verified files and a manifest in `root`.

    Done twice, the second call only verifies. Interrupted, the next call fetches what is still missing.

    Args:
        root: folder to fill.
        source: folder with the idx files, as they are or as `.gz`; None tries the environment variable
            `TAP_FASHION_MNIST`, the installed Debian package, its download, and the public download.
        files: what to expect.

    Returns:
        The manifest: sizes and hashes, the same on every machine.

    Raises:
        UserError: no source works, a named source is wrong or truncated, or `root` cannot be written.
    """
    root = Path(root)
    wrong = [file for file in files if not _is_right(root / file.name, file)]
    if wrong:
        with tempfile.TemporaryDirectory(prefix="tap-fashion-") as scratch:
            first_accepted(
                "Fashion-MNIST",
                _sources(source or os.environ.get(SOURCE_VARIABLE), Path(scratch), wrong),
                lambda folder: _take_over(folder, root, wrong),
                f"put {files[0].name}.gz and the others in a folder and name it with {SOURCE_VARIABLE} or --source",
            )
    manifest = {
        "name": "fashion_mnist",
        "licence": "MIT",
        "files": {file.name: {"bytes": file.size, "sha256": file.sha256} for file in files},
    }
    text = json.dumps(manifest, indent=2) + "\n"
    path = root / _MANIFEST
    if not path.is_file() or path.read_text() != text:
        atomic_write(path, text)
    return path


def read_images(path: Path) -> np.ndarray:
    """(N, 28, 28) uint8 from an idx file.

    Raises:
        UserError: the file is missing or is not what its header says.
    """
    images = _read_idx(path, dimensions=3)
    if images.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE):
        raise UserError(f"{path}: images of {images.shape[1:]} pixels, expected 28 x 28; prepare the data again")
    return images


def read_labels(path: Path, classes: int) -> np.ndarray:
    """(N,) int64 from an idx file.

    Raises:
        UserError: the file is missing, is not what its header says, or holds a label outside [0, classes).
    """
    labels = _read_idx(path, dimensions=1).astype(np.int64)
    if len(labels) and labels.max() >= classes:
        first = int(np.argmax(labels >= classes))
        raise UserError(
            f"{path}: label {labels[first]} of image {first} is out of range for {classes} classes; "
            "set data.num_classes to the number of classes or prepare the data again"
        )
    return labels


def _sources(named: str | Path | None, scratch: Path, wanted: list[IdxFile]) -> list[Source]:
    if named is not None:
        return [named_path(named)]
    names = [f"{file.name}.gz" for file in wanted]
    return [
        installed_folder(Path("/") / _PACKAGE_FOLDER),
        debian_package(_PACKAGE, _PACKAGE_FOLDER, scratch),
        public_download({name: tuple(url + name for url in _URLS) for name in names}, scratch),
    ]


def _take_over(folder: Path, root: Path, wanted: list[IdxFile]) -> None:
    """Copies the wanted files, decompressed, once their content is verified."""
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; give the folder that holds {wanted[0].name}.gz")
    with byte_progress() as progress:
        for file in wanted:
            plain, packed = folder / file.name, folder / f"{file.name}.gz"
            path = packed if packed.is_file() else plain
            if not path.is_file():
                raise UnavailableError(f"{folder} has neither {packed.name} nor {plain.name}")
            task = progress.add_task(file.name, total=file.size)
            content = _read_content(path, file, lambda count, task=task: progress.advance(task, count))
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise UserError(f"{path}: content has the wrong sha256; get the file again from another source")
            atomic_write(root / file.name, content)


def _read_content(path: Path, file: IdxFile, advance: Callable[[int], None]) -> bytes:
    parts = []
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
                advance(len(part))
    except (EOFError, zlib.error, OSError) as error:
        raise UserError(f"{path}: truncated, unreadable or not a gzip file ({error}); get the file again") from error
    content = b"".join(parts)
    if len(content) != file.size:
        raise UserError(f"{path}: {len(content)} bytes of content, expected {file.size}; get the file again")
    return content


def _is_right(path: Path, file: IdxFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and sha256_file(path) == file.sha256


def _read_idx(path: Path, dimensions: int) -> np.ndarray:
    """An idx file of unsigned bytes: magic number (0, 0, 8, dimensions), big-endian sizes, then the values."""
    if not path.is_file():
        raise UserError(f"{path}: not there; run `tap data prepare cls` first")
    content = path.read_bytes()
    start = 4 * (dimensions + 1)
    if len(content) < start or content[:4] != bytes((0, 0, 8, dimensions)):
        raise UserError(f"{path}: not an idx file of {dimensions}-dimensional bytes; prepare the data again")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != int(np.prod(shape)):
        raise UserError(f"{path}: truncated ({values.size} values, header says {shape}); prepare the data again")
    return values.reshape(shape)
