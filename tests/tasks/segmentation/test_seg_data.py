import json

import numpy as np
import pytest
import torch
from PIL import Image

from tap.errors import UserError
from tap.tasks.base import Item
from tap.tasks.segmentation.data import Collate, open_splits

FULL = {"hflip": 0.5, "scale_range": (0.5, 2.0), "photometric": True}


def name(root, kind, number, split="validation"):
    return root / kind / split / f"ADE_{split}_{number:08d}{'.jpg' if kind == 'images' else '.png'}"


def save_png(path, array, **options):
    """Writes a PNG under the name of a `.jpg`: what counts is the content, and JPEG cannot hold the bad cases."""
    Image.fromarray(array, **options).save(path, format="png")


def test_splits_of_ade20k(seg_spec):
    splits = open_splits(seg_spec())
    assert (len(splits.train), len(splits.calibration), len(splits.validation)) == (6, 2, 3)
    assert not set(splits.train.names) & set(splits.calibration.names)
    assert open_splits(seg_spec().model_copy(update={"seed": 3})).calibration.names == splits.calibration.names
    limited = open_splits(seg_spec(limit_train=3, limit_val=2))
    assert (len(limited.train), len(limited.validation)) == (3, 2)
    assert limited.calibration.names == splits.calibration.names
    assert [limited.validation[i].sample_id for i in range(2)] == [
        splits.validation.names.index(name) for name in limited.validation.names
    ]


def test_evaluation_sample(seg_spec, ade_root):
    sample = open_splits(seg_spec()).validation[1]
    stored = np.asarray(Image.open(name(ade_root, "annotations", 1))).astype(int)
    np.testing.assert_array_equal(sample.target.labels.numpy(), np.where(stored == 0, 255, stored - 1))
    assert sample.target.size == (32, 38)  # 40 x 48, short side to 32
    assert sample.image.shape == (3, 32, 40)  # an odd grid: the width is padded to whole patches
    assert (sample.image[:, :, 38:] == 0).all()
    assert (sample.sample_id, sample.seed) == (1, 0)


def test_colours_come_in_rgb_order_and_normalised(seg_spec, ade_root):
    colour = np.full((40, 48, 3), (200, 100, 30), dtype=np.uint8)
    save_png(name(ade_root, "images", 0), colour)
    image = open_splits(seg_spec()).validation[0].image
    torch.testing.assert_close(image[:, 0, 0], (torch.tensor([200.0, 100.0, 30.0]) / 255 - 0.5) / 0.25)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_training_item_depends_on_its_seed_alone(seg_spec, channels):
    spec = seg_spec(FULL, {"channels": channels}, mean=(0.5,) * channels, std=(0.25,) * channels)
    train = open_splits(spec).train
    items = [Item(index, seed) for index in (0, 4) for seed in range(20)]
    first = {item: train[item] for item in items}
    for item in reversed(items):
        again = train[item]
        assert torch.equal(again.image, first[item].image)
        assert torch.equal(again.target, first[item].target)
    assert all(sample.image.shape == (channels, 32, 32) for sample in first.values())
    assert all(sample.target.shape == (32, 32) for sample in first.values())
    assert len({sample.image.numpy().tobytes() for sample in first.values()}) == len(items)


def test_image_and_labels_move_together(seg_spec, ade_root):
    for number in range(8):  # images that show their own labels
        stored = np.asarray(Image.open(name(ade_root, "annotations", number, "training")))
        save_png(name(ade_root, "images", number, "training"), np.repeat(stored[..., None] * 50, 3, axis=2))
    train = open_splits(seg_spec({"hflip": 0.5, "scale_range": (1.0, 1.5)})).train
    for seed in range(20):
        sample = train[Item(seed % 6, seed)]
        shown = ((sample.image[0] * 0.25 + 0.5) * 255 / 50).round()
        expected = torch.where(sample.target == 255, 0, sample.target.long() + 1)
        inside = (shown == expected).float().mean()  # bilinear pixels on the borders of labels differ
        assert inside > 0.75


def test_image_smaller_than_the_crop_is_padded_with_void(seg_spec):
    sample = open_splits(seg_spec({"scale_range": (0.5, 0.5)})).train[Item(0, 1)]
    assert sample.image.shape == (3, 32, 32)
    assert (sample.target[16:] == 255).all()
    assert (sample.image[:, 16:] == 0).all()
    assert (sample.target[:16, :16] != 255).any()


def test_sliding_windows_get_a_whole_crop(seg_spec, ade_root):
    flat = np.zeros((10, 200, 3), dtype=np.uint8)  # so wide that the longest side decides its size: 6 x 128
    save_png(name(ade_root, "images", 0), flat)
    save_png(name(ade_root, "annotations", 0), flat[..., 0])
    assert open_splits(seg_spec()).validation[0].image.shape == (3, 8, 128)
    assert open_splits(seg_spec(evaluation={"inference": "slide"})).validation[0].image.shape == (3, 32, 128)


def test_batches(seg_spec):
    splits = open_splits(seg_spec(FULL))
    batch = Collate(train=True)([splits.train[Item(i, i + 1)] for i in range(4)])
    assert batch.images.shape == (4, 3, 32, 32)
    assert (batch.targets.shape, batch.targets.dtype) == ((4, 32, 32), torch.int64)
    assert set(batch.targets.unique().tolist()) <= {0, 1, 2, 3, 255}
    assert batch.seed != 0
    evaluated = Collate(train=False)([splits.validation[i] for i in range(3)])
    assert [target.size for target in evaluated.targets] == [(32, 38)] * 3
    assert evaluated.sample_ids.tolist() == [0, 1, 2]


def test_images_of_different_sizes_do_not_share_a_batch(seg_spec, ade_root):
    save_png(name(ade_root, "images", 0), np.zeros((48, 40, 3), dtype=np.uint8))
    save_png(name(ade_root, "annotations", 0), np.ones((48, 40), dtype=np.uint8))
    validation = open_splits(seg_spec()).validation
    with pytest.raises(UserError, match=r"eval\.batch_size"):
        Collate(train=False)([validation[i] for i in range(2)])


def test_all_void_image_is_read_as_void(seg_spec, ade_root):
    save_png(name(ade_root, "annotations", 0), np.zeros((40, 48), dtype=np.uint8))
    assert (open_splits(seg_spec()).validation[0].target.labels == 255).all()


def test_grey_indexed_and_opaque_files_are_converted(seg_spec, ade_root):
    grey = np.random.default_rng(0).integers(0, 256, (40, 48), dtype=np.uint8)
    save_png(name(ade_root, "images", 0), grey)
    opaque = np.dstack([grey, grey, grey, np.full_like(grey, 255)])
    save_png(name(ade_root, "images", 1), opaque)
    indexed = Image.fromarray((grey % 5).astype(np.uint8), mode="P")
    indexed.putpalette(list(range(256)) * 3)
    indexed.save(name(ade_root, "annotations", 0))
    Image.fromarray((grey % 5).astype(np.uint16)).save(name(ade_root, "annotations", 1))
    first, second = (open_splits(seg_spec()).validation[i] for i in range(2))
    assert torch.equal(first.image, second.image)
    assert torch.equal(first.target.labels, second.target.labels)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((40, 48), dtype=np.uint16), "16 bits per channel"),
        (np.zeros((40, 48, 4), dtype=np.uint8), "transparent"),
    ],
)
def test_images_that_cannot_be_converted_are_refused(seg_spec, ade_root, array, message):
    save_png(name(ade_root, "images", 0), array)
    with pytest.raises(UserError, match=message) as error:
        open_splits(seg_spec()).validation[0]
    assert "ADE_validation_00000000.jpg" in str(error.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((48, 40), dtype=np.uint8), "40 x 48 pixels for an image of 48 x 40"),
        (np.full((40, 48), 5, dtype=np.uint8), "label 5 is above the 4 classes"),
        (np.full((40, 48), 300, dtype=np.uint16), "label 300 is above the 4 classes"),
        (np.ones((40, 48, 3), dtype=np.uint8), "picture of mode RGB"),
    ],
)
def test_bad_label_maps_are_refused(seg_spec, ade_root, array, message):
    save_png(name(ade_root, "annotations", 0), array)
    with pytest.raises(UserError, match=message) as error:
        open_splits(seg_spec()).validation[0]
    assert "ADE_validation_00000000" in str(error.value)


def test_broken_files_are_refused(seg_spec, ade_root):
    name(ade_root, "images", 0).write_bytes(b"")
    name(ade_root, "images", 1).write_bytes(b"no picture")
    name(ade_root, "annotations", 2).write_bytes(name(ade_root, "annotations", 2).read_bytes()[:60])
    validation = open_splits(seg_spec()).validation
    for index, message in enumerate(
        ("cannot be read as an image", "cannot be read as an image", "cannot be read as a label map")
    ):
        with pytest.raises(UserError, match=message):
            validation[index]


def test_missing_data(seg_spec, ade_root):
    with pytest.raises(UserError, match=r"no \.jpg images"):
        open_splits(seg_spec(root=str(ade_root / "images")))
    with pytest.raises(UserError, match="leaves none of 8"):
        open_splits(seg_spec(calibration=8))
    name(ade_root, "annotations", 1).unlink()
    with pytest.raises(UserError, match=r"ADE_validation_00000001\.png: missing"):
        open_splits(seg_spec())


def test_a_folder_among_the_images_is_no_image(seg_spec, ade_root):
    before = open_splits(seg_spec()).validation.names
    (ade_root / "images" / "validation" / "ADE_validation_00000000_old.jpg").mkdir()
    assert open_splits(seg_spec()).validation.names == before


def test_hidden_files_and_nested_folders_are_no_images(seg_spec, ade_root):
    before = open_splits(seg_spec())
    for split in ("training", "validation"):
        for path in list((ade_root / "images" / split).iterdir()):
            path.with_name(f"._{path.name}").write_bytes(b"\0\5\26\7")
            label = ade_root / "annotations" / split / f"._{path.stem}.png"
            label.write_bytes(b"\0\5\26\7")
        folder = ade_root / "images" / split / "0"  # its images would come first
        folder.mkdir()
        (folder / path.name).write_bytes(path.read_bytes())
    after = open_splits(seg_spec())
    for split in ("train", "calibration", "validation"):
        assert getattr(after, split).names == getattr(before, split).names
    assert torch.equal(after.validation[1].image, before.validation[1].image)


def test_bad_settings(seg_spec):
    with pytest.raises(UserError, match="not a segmentation dataset"):
        open_splits(seg_spec(name="coco"))
    with pytest.raises(UserError, match=r"data\.mean"):
        open_splits(seg_spec(mean=(0.5,), std=(0.5,)))


@pytest.fixture
def microscopy(tmp_path):
    """The layout that `tap data prepare seg` writes, with 4 x 3 + 2 x 3 + 2 x 3 tiles."""
    root = tmp_path / "microscopy"
    for split, count in (("training", 4), ("calibration", 2), ("validation", 2)):
        for kind in ("images", "annotations"):
            (root / kind / split).mkdir(parents=True)
            for recording, label in (("hela", 2), ("ecoli", 3), ("cho", 2)):
                for number in range(count):
                    tile = np.full((32, 32), label, dtype=np.uint8)
                    Image.fromarray(tile).save(root / kind / split / f"{recording}_t{number:02d}_z0_y0000_x0000.png")
    (root / "manifest.json").write_text(json.dumps({}))
    return root


def test_microscopy_has_its_own_calibration_and_balances_recordings(seg_spec, microscopy):
    spec = seg_spec(name="microscopy", root=str(microscopy), num_classes=3, calibration=3, limit_train=6, limit_val=3)
    splits = open_splits(spec)
    for split, each in ((splits.train, 2), (splits.calibration, 1), (splits.validation, 1)):
        recordings = [name.split("_")[0] for name in split.names]
        assert sorted(recordings) == ["cho"] * each + ["ecoli"] * each + ["hela"] * each
    sample = splits.validation[0]
    assert sample.target.labels.unique().tolist() == [1]  # cho comes first; stored label 2 is class 1


def test_microscopy_must_be_prepared_and_has_three_classes(seg_spec, microscopy):
    with pytest.raises(UserError, match="microscopy has 3 classes, not 5"):
        open_splits(seg_spec(name="microscopy", root=str(microscopy), num_classes=5))
    (microscopy / "manifest.json").unlink()
    with pytest.raises(UserError, match="tap data prepare seg"):
        open_splits(seg_spec(name="microscopy", root=str(microscopy), num_classes=3))
