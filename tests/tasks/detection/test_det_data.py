import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import mask as codes

from tap.errors import UserError
from tap.tasks.base import Item
from tap.tasks.detection.annotations import faults, load, read_annotations
from tap.tasks.detection.data import Collate, open_splits

LSJ = {"hflip": 0.5, "scale_range": (0.5, 2.0)}


def edit(root, change, split="train2017"):
    """Applies `change` to the annotation file's content."""
    file = root / "annotations" / f"instances_{split}.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return file


def test_splits_and_numbers(det_spec):
    splits = open_splits(det_spec())
    held_out = [splits.calibration[i].sample_id for i in range(2)]
    trained = [splits.train[Item(i, 1)].sample_id for i in range(len(splits.train))]
    assert len(splits.calibration) == 2
    # Eight images: two are held out, and the last one has no object, so it is not trained on.
    assert sorted(trained) == sorted(set(range(7)) - set(held_out))
    assert [splits.validation[i].sample_id for i in range(3)] == [0, 1, 2]
    limited = open_splits(det_spec(limit_train=2, limit_val=1))
    assert {limited.train[Item(i, 1)].sample_id for i in range(2)} <= set(trained)
    assert len(limited.validation) == 1


def test_an_evaluation_image_and_its_truth(det_spec, coco_root):
    sample = open_splits(det_spec()).validation[1]
    assert sample.image.shape == (3, 32, 32)
    place = sample.target
    assert (place.image_id, place.meta["ori_shape"], place.meta["img_shape"]) == (101, (40, 48), (27, 32))
    assert (sample.image[:, 27:] == 0).all()
    assert (sample.image[:, :27] != 0).any()
    assert [one["category_id"] for one in place.objects] == [0, 1, 0]  # classes from 0, crowds too
    assert open_splits(det_spec()).validation[2].target.objects == ()


def test_training_objects_without_augmentation(det_spec):
    splits = open_splits(det_spec(model={"image_size": 48}))
    sample = splits.train[Item(0, 3)]
    number = sample.sample_id
    target = sample.target
    left = 4 + number
    # After a crop boxes are those of the masks; the outline of a polygon lies on pixels that are not inside of it.
    assert target["boxes"].tolist() == [[left, 20, left + 12, 36], [left + 15, 4, left + 26, 15]]
    assert target["labels"].tolist() == [0, 1]
    assert target["crowds"].tolist() == [[left, 20, left + 12, 36]]
    assert target["shape"] == (40, 48)
    masks = target["masks"].masks
    assert masks.shape == (2, 48, 48)
    expected = np.zeros((48, 48))
    expected[20:36, left : left + 12] = 1
    np.testing.assert_array_equal(masks[0], expected)


def test_an_item_depends_on_its_seed_alone(det_spec):
    train = open_splits(det_spec(augment=LSJ)).train
    again = pickle.loads(pickle.dumps(open_splits(det_spec(augment=LSJ)).train))  # as a loading process gets it
    torch.manual_seed(5)
    one, other = train[Item(1, 11)], again[Item(1, 11)]
    assert torch.equal(one.image, other.image)
    assert torch.equal(one.target["boxes"], other.target["boxes"])
    np.testing.assert_array_equal(one.target["masks"].masks, other.target["masks"].masks)
    assert any(not torch.equal(one.image, train[Item(1, seed)].image) for seed in (12, 13))


def test_augmented_boxes_are_those_of_their_masks(det_spec):
    train = open_splits(det_spec(augment=LSJ)).train
    objects = 0
    for seed in range(1, 30):
        sample = train[Item(seed % len(train), seed)]
        target, (height, width) = sample.target, sample.target["shape"]
        assert len(target["boxes"]) == len(target["labels"]) == len(target["masks"].masks)
        for box, mask in zip(target["boxes"].tolist(), target["masks"].masks, strict=True):
            rows, columns = np.nonzero(mask)
            assert rows.max() < height
            assert columns.max() < width
            bounds = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            # Within two pixels: a box is scaled exactly, a mask pixel by pixel (exact only after a crop).
            assert np.abs(np.array(bounds) - box).max() <= 2
            objects += 1
    assert objects > 20


def test_batches(det_spec):
    splits = open_splits(det_spec())
    batch = Collate()([splits.train[Item(i, i + 1)] for i in range(3)])
    assert batch.images.shape == (3, 3, 32, 32)
    assert len(batch.targets) == 3
    assert batch.seed != 0
    moved = batch.to("cpu")
    assert torch.equal(moved.targets[1]["boxes"], batch.targets[1]["boxes"])


def broken_text(annotation):
    code = codes.encode(np.asfortranarray(np.ones((40, 48), dtype=np.uint8)))
    annotation["segmentation"] = {"size": [40, 48], "counts": code["counts"].decode()[:-1]}


BAD = {
    "a box outside of the image": (
        lambda c: c["annotations"][0].update(bbox=[60, 4, 10, 10]), "boxes outside of their image: annotation 1: box"
    ),
    "a box that is none": (
        lambda c: c["annotations"][0].update(bbox=[1, 2, 3]), r"entry 1: its bbox is \[1, 2, 3\], not \[left, top"
    ),
    "a box of infinite size": (
        lambda c: c["annotations"][0].update(bbox=[1, 2, 3, float("nan")]), "entry 1: its bbox is .*nan"
    ),
    "no box": (lambda c: c["annotations"][0].update(bbox=None), "entry 1: its bbox is None"),
    "no area": (lambda c: c["annotations"][0].update(area=None), "entry 1: its area is None, not a number"),
    "an area without end": (lambda c: c["annotations"][0].update(area=10**400), "entry 1: its area is 1000"),
    "an id that is a list": (lambda c: c["annotations"][0].update(image_id=[100]), r"its image_id is \[100\], not"),
    "a category that is a list": (lambda c: c["annotations"][0].update(category_id=[2]), "its category_id is"),
    "a file name that is a number": (lambda c: c["images"][0].update(file_name=5), "entry 100: its file_name is 5"),
    "a side that is text": (lambda c: c["images"][0].update(height="40"), "entry 100: its height is '40'"),
    "a side of nothing": (lambda c: c["images"][0].update(width=0), "its width is 0, not a number of pixels"),
    "a crowd flag that is text": (
        lambda c: c["annotations"][0].update(iscrowd="no"), "neither 0 nor 1: annotation 1: iscrowd 'no'"
    ),
    "a polygon of text": (
        lambda c: c["annotations"][1].update(segmentation=[["a"] * 6]), "masks that are broken: annotation 2: a polygon"
    ),
    "a polygon without numbers": (
        lambda c: c["annotations"][1].update(segmentation=[[float("nan")] * 6]), "annotation 2: a polygon"
    ),
    "a polygon of lists": (
        lambda c: c["annotations"][1].update(segmentation=[[[1, 2]] * 6]), "annotation 2: a polygon"
    ),
    "a run-length code of no size": (
        lambda c: c["annotations"][0]["segmentation"].update(size=None), "masks that are broken: annotation 1"
    ),
    "a category that is not listed": (
        lambda c: c["annotations"][1].update(category_id=7), "categories that are not listed: annotation 2: category 7"
    ),
    "an annotation of a missing image": (
        lambda c: c["annotations"][2].update(image_id=9), "images that are not listed: annotation 3: image 9"
    ),
    "a run-length code of another size": (
        lambda c: c["annotations"][0]["segmentation"].update(size=[48, 40]), "masks that are broken: annotation 1"
    ),
    "a run-length code that is too short": (
        lambda c: c["annotations"][0]["segmentation"]["counts"].pop(), "masks that are broken: annotation 1: run-length"
    ),
    "a compressed code that is cut off": (
        lambda c: broken_text(c["annotations"][0]), "masks that are broken: annotation 1: run-length code"
    ),
    "half a point": (
        lambda c: c["annotations"][1]["segmentation"][0].pop(), "masks that are broken: annotation 2: a polygon"
    ),
    "no mask": (lambda c: c["annotations"][1].update(segmentation=None), "masks that are broken: annotation 2"),
    "an id of annotations twice": (
        lambda c: c["annotations"][1].update(id=1), "annotations: ids that stand twice: id 1"
    ),
    "an id of images twice": (lambda c: c["images"][1].update(id=100), "images: ids that stand twice: id 100"),
    "a list that is missing": (lambda c: c.pop("images"), "must have the lists images"),
    "an annotation without a box": (lambda c: c["annotations"][0].pop("bbox"), "entry 1 has no 'bbox'"),
    "no categories": (lambda c: c.update(categories=c["categories"][:1]), "categories that are not listed"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_wrong_annotations_are_refused(name, det_spec, coco_root):
    change, message = BAD[name]
    file = edit(coco_root, change)
    with pytest.raises(UserError, match=message) as caught:
        open_splits(det_spec())
    assert str(file) in str(caught.value)


def test_a_good_compressed_code_is_read(coco_root):
    code = codes.encode(np.asfortranarray(np.eye(40, 48, dtype=np.uint8)))
    good = {"size": [40, 48], "counts": code["counts"].decode()}
    file = edit(coco_root, lambda c: c["annotations"][0].update(segmentation=good))
    assert faults(load(file)) == {}


def test_what_has_no_area_is_left_out(det_spec, coco_root):
    def flatten(content):
        content["annotations"][0].update(bbox=[4, 20, 0, 16], area=0)
        content["annotations"][4].update(area=0)

    file = edit(coco_root, flatten, "val2017")
    assert [one["id"] for one in read_annotations(file)["annotations"]] == [2, 3, 4, 6]
    splits = open_splits(det_spec())
    assert [one["id"] for one in splits.validation[0].target.objects] == [2, 3]


def test_only_images_without_objects_cannot_be_trained_on(det_spec, coco_root):
    edit(coco_root, lambda content: content.update(annotations=[]))
    with pytest.raises(UserError, match="no training image with an object is left"):
        open_splits(det_spec())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"num_classes": 3}, "has 2 categories, not 3"),
        ({"name": "ade20k"}, "'ade20k' is not a detection dataset"),
        ({"name": "microscopy"}, "not prepared; run `tap data prepare det` first"),
        ({"root": "nowhere"}, "nowhere/annotations/instances_train2017.json: cannot be read"),
    ],
)
def test_settings_that_do_not_fit(data, message, det_spec):
    with pytest.raises(UserError, match=message):
        open_splits(det_spec(**data))


def test_classes_in_another_order_are_refused(det_spec, coco_root):
    """The order numbers the classes: what was trained as a block would be judged as a triangle."""
    file = edit(coco_root, lambda content: content["categories"].reverse(), "val2017")
    with pytest.raises(UserError, match="numbers other categories than annotations/instances_train2017") as caught:
        open_splits(det_spec())
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("split", ["train2017", "val2017"])
def test_an_image_of_another_size_than_listed_is_refused(split, det_spec, coco_root):
    for path in (coco_root / split).iterdir():
        Image.fromarray(np.zeros((20, 24, 3), dtype=np.uint8)).save(path)
    splits = open_splits(det_spec())
    with pytest.raises(UserError, match=r"\.jpg: has 24 x 20 pixels, its annotation file lists 48 x 40"):
        _ = splits.train[Item(0, 1)] if split == "train2017" else splits.validation[0]


def test_no_json(det_spec, coco_root):
    (coco_root / "annotations" / "instances_val2017.json").write_text("{")
    with pytest.raises(UserError, match=r"instances_val2017\.json: is not JSON"):
        open_splits(det_spec())


def test_an_image_that_is_missing_is_named(det_spec, coco_root):
    (coco_root / "val2017" / "000000000000.jpg").unlink()
    with pytest.raises(UserError, match=r"val2017/000000000000\.jpg: missing"):
        open_splits(det_spec()).validation[0]
