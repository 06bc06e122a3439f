import gzip
import hashlib
import json
import shutil
import struct

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as codes

from tap.errors import UserError
from tap.tasks.classification.fashion import CLASSES, IdxFile
from tap.tasks.detection.annotations import faults
from tap.tasks.fashion_scenes import scenes
from tap.tasks.fashion_scenes.compose import Recipe
from tap.tasks.fashion_scenes.scenes import composed, prepare

COUNTS = {"training": 5, "calibration": 2, "validation": 3}
TRAINED, TESTED, HELD_OUT = 60, 30, 20


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A little Fashion-MNIST whose garments can be told apart, and what to expect of it."""
    folder, rng, files = tmp_path_factory.mktemp("source"), np.random.default_rng(0), []
    for part, count in (("train", TRAINED), ("t10k", TESTED)):
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        images[:, 3:26, 5:23] = rng.integers(30, 256, (count, 23, 18))
        labels = np.arange(count, dtype=np.uint8) % 10
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
            files.append(IdxFile(name, len(content), hashlib.sha256(content).hexdigest()))
    return folder, tuple(files)


def run(root, source, **changes):
    return prepare(root, source[0], **{"files": source[1], "scenes": COUNTS, "held_out": HELD_OUT} | changes)


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    root = tmp_path_factory.mktemp("prepared")
    return root, json.loads(run(root, source).read_text())


def files_of(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_same_bytes_on_every_run(source, prepared, tmp_path):
    run(tmp_path, source)
    assert files_of(tmp_path) == files_of(prepared[0])


def test_a_second_call_verifies_and_touches_nothing(source, prepared):
    root = prepared[0]
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    run(root, (root / "no source is needed", source[1]))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_damage_is_mended_and_scenes_of_other_settings_go_away(source, prepared, tmp_path):
    run(tmp_path, source, scenes=COUNTS | {"validation": 4})
    assert len(list((tmp_path / "images/validation").iterdir())) == 4
    (tmp_path / "images/training/scene_00001.png").write_bytes(b"cut")
    (tmp_path / "coco/instances_training.json").unlink()
    run(tmp_path, source)
    assert files_of(tmp_path) == files_of(prepared[0])


@pytest.mark.parametrize("content", ["", "[]", "no coco", "no pictures"])
def test_a_damaged_manifest_is_made_anew(source, prepared, tmp_path, content):
    root = tmp_path / "data"
    shutil.copytree(prepared[0], root)
    path = root / "manifest.json"
    whole = path.read_bytes()
    if content.startswith("no "):
        content = json.dumps({key: value for key, value in json.loads(whole).items() if key != content[3:]})
    path.write_text(content)
    run(root, source)
    assert path.read_bytes() == whole


def test_an_interrupted_run_leaves_no_manifest(source, tmp_path, monkeypatch):
    run(tmp_path, source)
    monkeypatch.setattr(scenes, "save_picture", lambda path, array: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, source, scenes=COUNTS | {"validation": 4})
    assert not (tmp_path / "manifest.json").exists()


def test_annotations_are_valid_and_show_what_is_in_the_pictures(prepared):
    root, manifest = prepared
    for split, count in COUNTS.items():
        content = json.loads((root / f"coco/instances_{split}.json").read_text())
        assert not faults(content)
        assert [category["name"] for category in content["categories"]] == list(CLASSES)
        assert [image["file_name"] for image in content["images"]] == [f"scene_{n:05d}.png" for n in range(count)]
        assert not any(annotation["iscrowd"] for annotation in content["annotations"])  # nothing is a sliver
        assert sum(manifest["garments"][split]) == len(content["annotations"])
        for annotation in content["annotations"]:
            mask = codes.decode(codes.frPyObjects(annotation["segmentation"], 128, 128))
            left, top, width, height = annotation["bbox"]
            assert mask.sum() == mask[top : top + height, left : left + width].sum() == annotation["area"]
            name = content["images"][annotation["image_id"] - 1]["file_name"]
            picture = np.asarray(Image.open(root / "images" / split / name))
            assert picture[mask > 0].mean() > 3 * Recipe().noise


def test_no_garment_is_used_twice(monkeypatch):
    used = []
    monkeypatch.setattr(scenes, "compose", lambda garments, kinds, *rest: used.extend(garments[:, 0, 0].tolist()))
    images = np.zeros((100, 28, 28), dtype=np.uint8)
    images[:, 0, 0] = range(100)
    list(composed("training", images, np.zeros(100, dtype=np.int64), 12, Recipe()))
    assert len(used) == len(set(used)) >= 12 * Recipe().garments[0]


def test_too_few_garments(source, tmp_path):
    with pytest.raises(UserError, match="30 garments are too few for 20 validation scenes"):
        run(tmp_path, source, scenes=COUNTS | {"validation": 20})


def test_card_tells_counts_and_that_scenes_are_composed(prepared):
    root, manifest = prepared
    card = (root / "README.md").read_text()
    assert f"| training | 5 | {sum(manifest['garments']['training'])} |" in card
    for part in ("MIT", "are composed of them", "No garment is in two scenes", "(the last 20 of them"):
        assert part in card


def test_unwritable_root(source, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        run(tmp_path / "data", source)
