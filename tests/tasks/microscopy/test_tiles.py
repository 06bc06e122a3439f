import itertools
import json
import shutil

import numpy as np
import pytest
import tifffile
from PIL import Image

from tap.errors import UserError
from tap.provenance.files import sha256_file
from tap.tasks.detection.annotations import faults
from tap.tasks.microscopy import tiles
from tap.tasks.microscopy.frames import RECORDINGS, Recording, read_frames
from tap.tasks.microscopy.tiles import GAP, REGIONS, SPLITS, TILE, Region, Tile, prepare

TINY_REGIONS = {
    "hela": {
        "training": Region(0, 0, 140, 300),
        "calibration": Region(172, 0, 310, 130),
        "validation": Region(172, 162, 310, 300),
    }
}
TINY_TILES = {"training": 6, "calibration": 2, "validation": 2}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 9000, (3, 310, 300), dtype=np.uint16)
    tifffile.imwrite(folder / "img.tif", frames, photometric="minisblack")
    masks = np.zeros((3, 310, 300), dtype=np.uint16)
    masks[:, 60:90, 20:50], masks[:, 200:260, 60:90], masks[:, 210:250, 200:240], masks[1, 4:30, 250:280] = 1, 2, 3, 4
    tifffile.imwrite(folder / "mask.tif", masks, photometric="minisblack")
    hashes = sha256_file(folder / "img.tif"), sha256_file(folder / "mask.tif")
    return folder, (Recording("hela", "HeLa", 2, "img.tif", "mask.tif", hashes, None, 5, "made"),)


def run(root, source, **changes):
    settings = {"recordings": source[1], "regions": TINY_REGIONS, "tiles": TINY_TILES} | changes
    return prepare(root, source[0], **settings)


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    root = tmp_path_factory.mktemp("prepared")
    return root, json.loads(run(root, source).read_text())


def files(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def cut(name):
    """Time, first row and first column of a tile, from its name."""
    _, time, _, top, left = name.split("_")
    return int(time[1:]), int(top[1:]), int(left[1:])


def test_the_same_bytes_on_every_run(source, prepared, tmp_path):
    run(tmp_path / "again", source)
    assert files(tmp_path / "again") == files(prepared[0])


def test_a_second_call_verifies_and_touches_nothing(source, prepared):
    root = prepared[0]
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    run(root, (root / "no source is needed", source[1]))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_damage_is_mended(source, tmp_path):
    run(tmp_path, source)
    whole = files(tmp_path)
    images = sorted((tmp_path / "images" / "training").iterdir())
    images[0].write_bytes(images[0].read_bytes()[:50])
    images[1].unlink()
    (tmp_path / "annotations" / "training" / images[2].name).write_bytes(images[3].read_bytes())
    run(tmp_path, source)
    assert files(tmp_path) == whole


@pytest.mark.parametrize("content", ["", "[]", "{}", b"\xff", "no coco", "no tiles", "no split"])
def test_a_damaged_manifest_is_made_anew(source, prepared, tmp_path, content):
    root = tmp_path / "data"
    shutil.copytree(prepared[0], root)
    path = root / "manifest.json"
    whole = path.read_bytes()
    manifest = json.loads(whole)
    if content == "no split":
        del manifest["coco"]["validation"]
    elif str(content).startswith("no "):
        del manifest[content[3:]]
    text = json.dumps(manifest) if str(content).startswith("no ") else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    run(root, source)
    assert path.read_bytes() == whole


def test_tiles_of_other_settings_go_away(source, prepared, tmp_path):
    run(tmp_path, source, tiles={"training": 9, "calibration": 3, "validation": 3})
    assert len(list((tmp_path / "images" / "training").iterdir())) == 9
    run(tmp_path, source)
    assert files(tmp_path) == files(prepared[0])


def test_an_interrupted_run_leaves_no_manifest(source, tmp_path, monkeypatch):
    run(tmp_path, source)
    monkeypatch.setattr(tiles, "save_picture", lambda path, array: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, source, tiles={"training": 9, "calibration": 3, "validation": 3})
    assert not (tmp_path / "manifest.json").exists()


def test_tiles_are_windows_of_the_frames(source, prepared):
    root, manifest = prepared
    frames = {frame.time: frame for frame in read_frames(source[0], source[1][0])}
    for name in manifest["tiles"]:
        split, stem = name.split("/")
        time, top, left = cut(stem)
        window = np.s_[top : top + TILE, left : left + TILE]
        for kind, whole in (("images", "image"), ("annotations", "labels"), ("instances", "instances")):
            stored = np.asarray(Image.open(root / kind / split / f"{stem}.png"))
            np.testing.assert_array_equal(stored, getattr(frames[time], whole)[window])


def test_splits_stay_in_their_regions(prepared):
    for name in prepared[1]["tiles"]:
        split, stem = name.split("/")
        _, top, left = cut(stem)
        region = TINY_REGIONS["hela"][split]
        assert region.top <= top <= region.bottom - TILE
        assert region.left <= left <= region.right - TILE


def test_counts_and_overlaps(prepared):
    by_split = {split: [n.split("/")[1] for n in prepared[1]["tiles"] if n.startswith(split)] for split in SPLITS}
    assert {split: len(names) for split, names in by_split.items()} == TINY_TILES
    for split, names in by_split.items():
        for one, other in itertools.combinations(map(cut, names), 2):
            if one[0] == other[0]:
                assert tiles._overlap(one[1:], other[1:]) <= tiles._LARGEST_OVERLAP[split]


def test_manifest_counts_pixels_and_cells(prepared):
    root, manifest = prepared
    for name, entry in manifest["tiles"].items():
        split, stem = name.split("/")
        labels = np.asarray(Image.open(root / "annotations" / split / f"{stem}.png"))
        assert entry["pixels"] == np.bincount(labels.ravel(), minlength=4).tolist()
    assert sum(entry["instances"] > 0 for entry in manifest["tiles"].values()) >= 7  # three quarters lie around cells


def test_card_tells_counts_and_shares(prepared):
    root, manifest = prepared
    card = (root / "README.md").read_text()
    void = sum(e["pixels"][0] for n, e in manifest["tiles"].items() if n.startswith("training"))
    assert "| training | hela | 6 |" in card
    assert f"| {100 * void / (6 * TILE * TILE):.1f} % |" in card
    for part in ("BSD-3-Clause", "not guaranteed to be manual", "never by frame", "0 void"):
        assert part in card


def test_fewer_tiles_where_there_is_no_room(source, tmp_path):
    manifest = json.loads(run(tmp_path, source, tiles={"training": 3, "calibration": 50, "validation": 1}).read_text())
    assert 3 <= sum(name.startswith("calibration") for name in manifest["tiles"]) < 20  # one or two fit in each frame


def test_unwritable_root(source, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        run(tmp_path / "data", source)


def test_real_regions_are_apart_and_hold_a_tile():
    assert set(REGIONS) == {recording.name for recording in RECORDINGS}
    for parts in REGIONS.values():
        assert set(parts) == set(SPLITS)
        for region in parts.values():
            assert min(region.bottom - region.top, region.right - region.left) >= TILE
        for one, other in itertools.combinations(parts.values(), 2):
            rows = max(one.top - other.bottom, other.top - one.bottom)
            columns = max(one.left - other.right, other.left - one.right)
            assert max(rows, columns) >= GAP


def test_tile_names_sort_by_time():
    names = [Tile("hela", "training", time, 0, 7, 12).name for time in (2, 10)]
    assert names == sorted(names) == ["hela_t02_z0_y0007_x0012", "hela_t10_z0_y0007_x0012"]


def test_the_cells_in_the_format_of_coco(prepared):
    """Boxes, areas and masks of every tile are those of its instance picture; the unlabelled rim is a crowd."""
    root, manifest = prepared
    crowds = 0
    for split in SPLITS:
        path = root / "coco" / f"instances_{split}.json"
        assert manifest["coco"][split] == sha256_file(path)
        content = json.loads(path.read_text())
        assert faults(content) == {}
        assert [image["file_name"] for image in content["images"]] == sorted(
            path.name for path in (root / "images" / split).iterdir()
        )
        for image in content["images"]:
            folder = root / "{}" / split / image["file_name"]
            instances, labels = (
                np.asarray(Image.open(str(folder).format(kind))) for kind in ("instances", "annotations")
            )
            entries = [entry for entry in content["annotations"] if entry["image_id"] == image["id"]]
            masks = [decode(entry["segmentation"]) for entry in entries]
            for entry, mask in zip(entries, masks, strict=True):
                rows, columns = np.nonzero(mask)
                left, top = columns.min(), rows.min()
                assert entry["bbox"] == [left, top, columns.max() + 1 - left, rows.max() + 1 - top]
                assert (entry["area"], entry["category_id"]) == (mask.sum(), 1)
            cells = [mask for mask in masks if not (labels[mask] == 0).any()]
            assert len(cells) == len(np.unique(instances[instances > 0]))
            assert all(len(np.unique(instances[mask])) == 1 for mask in cells)
            hidden = [mask for mask in masks if (labels[mask] == 0).any()]
            covered = np.any([*hidden, np.zeros_like(labels, dtype=bool)], axis=0)
            np.testing.assert_array_equal(covered, labels == 0)
            small = [entry["iscrowd"] for entry, mask in zip(entries, masks, strict=True) if mask.sum() < 32]
            assert all(small)
            assert sum(entry["iscrowd"] for entry in entries) == len(hidden) + sum(mask.sum() < 32 for mask in cells)
            crowds += len(hidden)
    assert crowds > 4


def decode(code):
    """A run-length code as a mask, run by run."""
    flat, value = [], False
    for run in code["counts"]:
        flat += [value] * run
        value = not value
    return np.array(flat).reshape(code["size"], order="F")


def test_a_damaged_annotation_file_is_made_anew(source, prepared, tmp_path):
    root = tmp_path / "data"
    shutil.copytree(prepared[0], root)
    path = root / "coco" / "instances_training.json"
    before = path.read_bytes()
    path.write_bytes(before[:-5])
    run(root, source)
    assert path.read_bytes() == before
