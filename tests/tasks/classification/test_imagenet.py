import numpy as np
import pytest
import torch
from PIL import Image

from tap.errors import UserError
from tap.tasks.base import Item
from tap.tasks.classification.check import check
from tap.tasks.classification.data import open_splits

WNIDS = ("n01440764", "n01443537", "n01484850")
COUNTS = {"train": 12, "val": 6}


@pytest.fixture
def imagenet(tmp_path):
    root = tmp_path / "imagenet"
    rng = np.random.default_rng(0)
    for split, per_class in (("train", 4), ("val", 2)):
        for wnid in WNIDS:
            (root / split / wnid).mkdir(parents=True)
            for number in range(per_class):
                pixels = rng.integers(0, 256, (30 + 9 * number, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / wnid / f"{wnid}_{number}.JPEG")
    return root


def spec(cls_spec, root, **data):
    colour = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "num_classes": 3, "calibration": 3}
    augment = {"crop_scale": (0.2, 1.0), "hflip": 0.5, "rand_augment": "rand-m9-mstd0.5-inc1", "random_erasing": 0.25}
    return cls_spec(augment, {"channels": 3}, name="imagenet", root=str(root), **colour | data)


def test_folders_become_splits(cls_spec, imagenet):
    splits = open_splits(spec(cls_spec, imagenet))
    assert (len(splits.train), len(splits.calibration), len(splits.validation)) == (9, 3, 6)
    assert splits.calibration.labels.tolist() == [0, 1, 2]
    assert splits.validation.labels.tolist() == [0, 0, 1, 1, 2, 2]
    sample = splits.train[Item(5, 3)]
    assert sample.image.shape == (3, 32, 32)
    assert torch.equal(sample.image, splits.train[Item(5, 3)].image)
    assert splits.validation[5].image.shape == (3, 32, 32)


def test_grey_image_is_shown_in_colour(cls_spec, imagenet):
    Image.fromarray(np.full((40, 40), 128, np.uint8)).save(imagenet / "val" / WNIDS[0] / f"{WNIDS[0]}_0.JPEG")
    image = open_splits(spec(cls_spec, imagenet, mean=(0.5,) * 3, std=(0.5,) * 3)).validation[0].image
    assert (image[0] == image[1]).all()
    assert (image[0] == image[2]).all()


def test_missing_or_wrong_folders(cls_spec, imagenet):
    with pytest.raises(UserError, match="not a folder"):
        open_splits(spec(cls_spec, imagenet / "train"))
    with pytest.raises(UserError, match="3 class folders, expected 4"):
        open_splits(spec(cls_spec, imagenet, num_classes=4))


def cut(path):
    path.write_bytes(path.read_bytes()[:-300])


def test_truncated_image_stops_with_its_name(cls_spec, imagenet):
    cut(imagenet / "val" / WNIDS[1] / f"{WNIDS[1]}_1.JPEG")
    with pytest.raises(UserError, match=f"{WNIDS[1]}_1.JPEG: cannot be read"):
        open_splits(spec(cls_spec, imagenet)).validation[3]


def test_check_accepts_a_right_folder(imagenet):
    report = check(imagenet, classes=3, images=COUNTS)
    assert report.ok, report.render()
    assert "train: 3 classes, 12 images" in report.render()


def test_check_lists_every_fault(imagenet):
    cut(imagenet / "train" / WNIDS[0] / f"{WNIDS[0]}_0.JPEG")
    (imagenet / "train" / WNIDS[0] / f"{WNIDS[0]}_1.JPEG").write_bytes(b"")
    (imagenet / "train" / WNIDS[1] / f"{WNIDS[1]}_0.JPEG").write_text("text")
    (imagenet / "train" / WNIDS[1] / "notes.txt").write_text("text")
    (imagenet / "train" / "n02").mkdir()
    (imagenet / "val" / WNIDS[2] / f"{WNIDS[2]}_0.JPEG").unlink()
    (imagenet / "val" / WNIDS[2] / f"{WNIDS[2]}_1.JPEG").unlink()
    (imagenet / "val" / "n99999999").mkdir()
    (imagenet / "test").mkdir()
    text = check(imagenet, classes=3, images=COUNTS).render()
    for part in (
        f"{WNIDS[0]}/{WNIDS[0]}_0.JPEG: cannot be read as an image (image file is truncated",
        f"{WNIDS[0]}/{WNIDS[0]}_1.JPEG: cannot be read as an image (not an image)",
        f"{WNIDS[1]}/{WNIDS[1]}_0.JPEG: cannot be read as an image (not an image)",
        f"{WNIDS[1]}/notes.txt",
        "n02",
        "val: 4 classes, expected 3",
        "val: 4 images, expected 6",
        "val: classes without images\n    n01484850\n    n99999999",
        "classes that are not in every split\n    n99999999",
        "folders beside the splits, which nothing reads; move them away\n    test",
    ):
        assert part in text


def test_check_of_the_full_set_on_a_small_one(imagenet):
    text = check(imagenet).render()
    assert "train: 3 classes, expected 1000" in text
    assert "val: 6 images, expected 50000" in text


def test_check_without_folder(tmp_path):
    with pytest.raises(UserError, match="not a folder"):
        check(tmp_path / "nowhere")
    assert "missing" in check(tmp_path).render()


def test_hidden_files_and_folders_are_no_images(cls_spec, imagenet):
    """Other systems leave such companions beside images: training and the check pass over them."""
    for split in COUNTS:
        (imagenet / split / ".ipynb_checkpoints").mkdir()
        (imagenet / split / WNIDS[0] / f"._{WNIDS[0]}_0.JPEG").write_bytes(b"\0\5\26\7")
    (imagenet / ".cache").mkdir()
    splits = open_splits(spec(cls_spec, imagenet))
    assert (len(splits.train), len(splits.calibration), len(splits.validation)) == (9, 3, 6)
    assert check(imagenet, classes=3, images=COUNTS).ok


def test_the_check_names_what_training_refuses(cls_spec, imagenet):
    name = f"{WNIDS[0]}_0.JPEG"
    Image.fromarray(np.full((40, 40), 30000, np.uint16)).save(imagenet / "val" / WNIDS[0] / name, format="png")
    with pytest.raises(UserError, match=f"{name}: 16 bits per channel"):
        open_splits(spec(cls_spec, imagenet)).validation[0]
    (problem,) = check(imagenet, classes=3, images=COUNTS).problems
    assert problem.items[0].startswith(f"{WNIDS[0]}/{name}: 16 bits per channel")
