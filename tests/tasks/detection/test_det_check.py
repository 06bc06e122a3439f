import json
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from tap.errors import UserError
from tap.tasks.detection.check import check

COUNTS = {"train2017": 8, "val2017": 3}
TRAIN, VAL = "annotations/instances_train2017.json", "annotations/instances_val2017.json"
MEND = "mend or remove these entries, or get the file again"


def look(root, **options):
    return check(root, COUNTS, categories=2, **options)


@contextmanager
def changed(root, file=TRAIN):
    content = json.loads((root / file).read_text())
    yield content
    (root / file).write_text(json.dumps(content))


def test_right_data(coco_root):
    report = look(coco_root)
    assert report.ok
    assert report.facts == [
        "train2017: 8 images, 14 objects, 7 crowd regions, 1 images without objects (not trained on)",
        "val2017: 3 images, 4 objects, 2 crowd regions, 1 images without objects (not trained on)",
    ]


def test_everything_that_is_wrong_is_listed(coco_root):
    with changed(coco_root) as content:
        entries = content["annotations"]
        entries[0]["bbox"] = [40, 4, 10, 10]
        entries[1]["image_id"] = 9
        entries[2]["category_id"] = 7
        entries[3]["segmentation"]["counts"].append(1)
        entries[4]["id"] = 1
        entries[5]["area"] = 0
        content["images"].append({"id": 200, "file_name": "none.jpg", "height": 4, "width": 4})
    (coco_root / "val2017" / "000000000001.jpg").write_bytes(b"no picture")
    report = look(coco_root)
    found = {problem.text: problem.items for problem in report.problems}
    assert found == {
        f"{TRAIN}: 9 images are listed, expected 8; get the file again": (),
        f"{TRAIN}: annotations: ids that stand twice; {MEND}": ("id 1",),
        f"{TRAIN}: annotations of images that are not listed; list the images, or remove these annotations": (
            "annotation 2: image 9",
        ),
        f"{TRAIN}: categories that are not listed; list them, or remove these annotations": (
            "annotation 3: category 7",
        ),
        f"{TRAIN}: boxes outside of their image; {MEND}": ("annotation 1: box [40, 4, 10, 10] of an image of 48 x 40",),
        f"{TRAIN}: masks that are broken; {MEND}": ("annotation 4: run-length code of 1921 pixels, not 1920",),
        "train2017: images that are listed but missing; get them again": ("none.jpg",),
        "val2017: images that cannot be used; get them again": (
            "000000000001.jpg: cannot be read as an image (not an image); get the file again",
        ),
    }
    assert "train2017: 1 annotations of zero area, which are left out (6)" in report.facts


def test_entries_of_a_wrong_form_hide_nothing(coco_root):
    with changed(coco_root) as content:
        content["annotations"][0]["bbox"] = [1, 2, 3]
        del content["annotations"][1]["area"]
        content["annotations"][2]["category_id"] = 7
        content["images"][5]["height"] = "40"
        content["images"].append({"id": 200, "file_name": "none.jpg", "height": 4, "width": 4})
    found = {problem.text: problem.items for problem in look(coco_root).problems}
    assert found[f"{TRAIN}: entries that are not of COCO's form; {MEND}"] == (
        "images: entry 105: its height is '40', not a number of pixels",
        "annotations: entry 1: its bbox is [1, 2, 3], not [left, top, width, height]",
        "annotations: entry 2 has no 'area'",
    )
    assert found[f"{TRAIN}: categories that are not listed; list them, or remove these annotations"] == (
        "annotation 3: category 7",
    )
    assert found["train2017: images that are listed but missing; get them again"] == ("none.jpg",)
    assert not any("images that are not listed" in text for text in found)


def test_files_that_differ_in_their_folder_only(coco_root):
    """Each is found missing by its own name, and each fault bears it."""
    with changed(coco_root) as content:
        for number, folder in ((0, "a"), (1, "b")):
            content["images"][number]["file_name"] = f"{folder}/same.jpg"
    for folder in ("a", "b"):
        (coco_root / "train2017" / folder).mkdir()
    (coco_root / "train2017" / "000000000000.jpg").rename(coco_root / "train2017" / "a" / "same.jpg")
    found = {problem.text: problem.items for problem in look(coco_root).problems}
    assert found == {"train2017: images that are listed but missing; get them again": ("b/same.jpg",)}
    (coco_root / "train2017" / "b" / "same.jpg").write_bytes(b"")
    (problem,) = look(coco_root).problems
    assert problem.items[0].startswith("b/same.jpg: cannot be read")


def test_what_training_would_drop_in_silence(coco_root):
    with changed(coco_root) as content:
        entries = content["annotations"]
        entries[0]["bbox"] = [48, 4, 1, 10]
        entries[1]["segmentation"] = [[50, 1, 60, 1, 60, 9], [1, 40, 9, 40, 9, 44]]
        entries[3]["segmentation"]["counts"] = [1920]
        entries[4]["segmentation"] = [[50, 1, 60, 1, 60, 9], [1, 1, 9, 1, 9, 9]]  # one part is inside
        entries[6]["segmentation"]["counts"] = "Pl1"  # 1,920 of background
        entries[9]["bbox"][2] = entries[10]["bbox"][3] = 0.5
    report = look(coco_root)
    assert {problem.text: problem.items for problem in report.problems} == {
        f"{TRAIN}: boxes wholly outside of their image; {MEND}": ("annotation 1",),
        f"{TRAIN}: masks without a pixel in their image; {MEND}": ("annotation 2", "annotation 4", "annotation 7"),
    }
    assert report.facts[0].endswith("2 images without objects (not trained on)")
    assert "train2017: 2 boxes under one pixel, which training leaves out (10, 11)" in report.facts


@pytest.mark.parametrize("file", [TRAIN, VAL])
def test_a_split_without_any_object(coco_root, file):
    """Training would refuse it, evaluation have nothing to score."""
    with changed(coco_root, file) as content:
        content["annotations"] = [entry for entry in content["annotations"] if entry["iscrowd"]]
    (problem,) = look(coco_root).problems
    assert problem.text == f"{file}: no image has an object to learn from or to score; get the file again"


def test_images_that_training_would_refuse_or_misread(coco_root):
    folder = coco_root / "train2017"
    pixels = np.random.default_rng(0).integers(0, 256, (40, 48), dtype=np.uint8)
    Image.fromarray(pixels.astype(np.uint16)).save(folder / "000000000000.jpg", format="png")
    Image.fromarray(pixels[:20]).save(folder / "000000000001.jpg")
    Image.fromarray(np.dstack([pixels] * 3 + [np.full_like(pixels, 255)])).save(
        folder / "000000000002.jpg", format="png"
    )  # opaque: its alpha is dropped
    report = look(coco_root)
    assert {problem.text: problem.items for problem in report.problems} == {
        "train2017: images that cannot be used; get them again": (
            "000000000000.jpg: 16 bits per channel; convert it to 8 bits, since the range is unknown",
            "000000000001.jpg: has 48 x 20 pixels, listed are 48 x 40",
        )
    }


def test_categories_in_another_order_and_files_listed_twice(coco_root):
    """The order numbers the classes: training and evaluation would mean different ones."""
    with changed(coco_root, VAL) as content:
        content["categories"].reverse()
        content["images"][0]["file_name"] = content["images"][1]["file_name"]
    found = {problem.text: problem.items for problem in look(coco_root).problems}
    assert found == {
        f"{VAL}: files that are listed twice; {MEND}": ("000000000001.jpg",),
        "categories or their order differ between train2017 and val2017; take both from one source": (),
    }


def test_missing_parts(coco_root):
    (coco_root / VAL).unlink()
    for image in (coco_root / "train2017").iterdir():
        image.unlink()
    (coco_root / "train2017").rmdir()
    texts = [problem.text for problem in look(coco_root).problems]
    assert any(text.endswith("check that the file is there") for text in texts)
    assert "train2017: folder missing; set data.root to the folder that holds it" in texts
    with pytest.raises(UserError, match=r"not a folder; set data\.root"):
        check(coco_root / "nowhere")
