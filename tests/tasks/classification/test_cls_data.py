import pickle
import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from tap.errors import UserError
from tap.tasks.base import Item, batch_seed, seeded_rng
from tap.tasks.classification.data import Collate, open_splits, train_transform

FULL = {
    "crop_scale": (0.6, 1.0), "hflip": 0.5, "rand_augment": "rand-m9-mstd0.5-inc1", "random_erasing": 0.25,
    "mixup": 0.8, "cutmix": 1.0, "label_smoothing": 0.1,
}  # fmt: skip


def test_splits_are_disjoint_balanced_and_the_same_for_every_seed(cls_spec):
    spec = cls_spec()
    splits = open_splits(spec)
    assert (len(splits.train), len(splits.calibration), len(splits.validation)) == (80, 20, 40)
    assert not set(splits.train.indices) & set(splits.calibration.indices)
    assert np.bincount(splits.calibration.labels).tolist() == [2] * 10
    again = open_splits(spec.model_copy(update={"seed": 5}))
    assert again.calibration.indices.tolist() == splits.calibration.indices.tolist()


def test_limits_keep_classes_ids_and_calibration(cls_spec):
    whole, limited = open_splits(cls_spec()), open_splits(cls_spec(limit_train=30, limit_val=10))
    assert np.bincount(limited.train.labels).tolist() == [3] * 10
    assert np.bincount(limited.validation.labels).tolist() == [1] * 10
    assert limited.calibration.indices.tolist() == whole.calibration.indices.tolist()
    sample = limited.validation[4]
    assert torch.equal(sample.image, whole.validation[sample.sample_id].image)


def test_evaluation_image_is_the_padded_one_normalised(cls_spec, idx_root):
    sample = open_splits(cls_spec()).validation[3]
    pixels = np.frombuffer((idx_root / "t10k-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 28, 28)
    expected = (np.pad(pixels[3], 2) / 255 - 0.3) / 0.35
    assert (sample.target, sample.sample_id, sample.seed) == (3, 3, 0)
    np.testing.assert_allclose(sample.image.numpy()[0], expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_training_item_depends_on_its_seed_alone(cls_spec, channels):
    spec = cls_spec(FULL, {"channels": channels}, mean=(0.3,) * channels, std=(0.35,) * channels)
    train = open_splits(spec).train
    items = [Item(index, seed) for index in (0, 7) for seed in range(40)]
    first = {item: train[item].image for item in items}
    assert all(image.shape == (channels, 32, 32) and image.isfinite().all() for image in first.values())
    assert all(torch.equal(train[item].image, first[item]) for item in reversed(items))
    assert len({image.numpy().tobytes() for image in first.values()}) == len(items)


def test_the_number_of_loading_processes_changes_nothing(cls_spec):
    spec = cls_spec(FULL)
    train, collate = open_splits(spec).train, Collate(spec, train=True)
    batches = [[Item(i, 100 + i) for i in range(start, start + 4)] for start in range(0, 16, 4)]
    here = [collate([train[item] for item in batch]) for batch in batches]
    loaded = list(DataLoader(train, batch_sampler=batches, collate_fn=collate, num_workers=2))
    assert all(
        torch.equal(a.images, b.images) and torch.equal(a.targets, b.targets) for a, b in zip(here, loaded, strict=True)
    )


def test_no_augmentation_gives_the_evaluation_image(cls_spec):
    splits = open_splits(cls_spec())
    sample = splits.train[Item(0, 5)]
    plain = splits.validation.transform(splits.train.source.load(sample.sample_id))
    torch.testing.assert_close(sample.image, plain)


def test_random_augment_at_full_strength(cls_spec):
    spec = cls_spec({"rand_augment": "rand-m10-n4-inc1"})
    transform = train_transform(spec.data, spec.model, spec.train.augment)
    image = Image.fromarray(np.arange(1024, dtype=np.uint8).reshape(32, 32))
    for seed in range(100):  # posterisation is drawn here many times
        with seeded_rng(seed):
            assert transform(image).isfinite().all()


def test_mixing_is_a_function_of_the_batch(cls_spec):
    spec = cls_spec(FULL)
    train, collate = open_splits(spec).train, Collate(spec, train=True)
    samples = [train[Item(i, i + 1)] for i in range(4)]
    originals = torch.stack([sample.image for sample in samples])
    batch = collate(samples)
    torch.rand(3), random.random()
    again = collate(samples)
    assert torch.equal(batch.images, again.images)
    assert torch.equal(batch.targets, again.targets)
    assert batch.targets.shape == (4, 10)
    torch.testing.assert_close(batch.targets.sum(1), torch.ones(4))
    assert not torch.equal(batch.images, originals)
    assert torch.equal(torch.stack([sample.image for sample in samples]), originals)
    assert batch.sample_ids.tolist() == [sample.sample_id for sample in samples]
    assert batch.seed == batch_seed(samples) != batch_seed(samples[::-1])


def test_label_smoothing_alone(cls_spec):
    spec = cls_spec({"label_smoothing": 0.1})
    train = open_splits(spec).train
    samples = [train[Item(i, 1)] for i in range(3)]
    targets = Collate(spec, train=True)(samples).targets
    logits = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    classes = torch.tensor([sample.target for sample in samples])
    torch.testing.assert_close(
        torch.nn.functional.cross_entropy(logits, targets),
        torch.nn.functional.cross_entropy(logits, classes, label_smoothing=0.1),
    )


def test_evaluation_batches_keep_classes(cls_spec):
    spec = cls_spec(FULL)
    validation = open_splits(spec).validation
    batch = pickle.loads(pickle.dumps(Collate(spec, train=False)))([validation[i] for i in range(3)])
    assert batch.targets.tolist() == [0, 1, 2]
    assert batch.targets.dtype == torch.int64
    assert batch.seed == 0


def test_odd_batch_cannot_be_mixed(cls_spec):
    spec = cls_spec(FULL)
    train = open_splits(spec).train
    with pytest.raises(UserError, match=r"train\.batch_size"):
        Collate(spec, train=True)([train[Item(i, 1)] for i in range(3)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"root": "nowhere"}, "tap data prepare cls"),
        ({"num_classes": 9}, "out of range for 9 classes"),
        ({"calibration": 100}, "leaves none"),
        ({"mean": (0.3,) * 3, "std": (0.3,) * 3}, r"data\.mean: 3 values for 1 channels"),
        ({"name": "coco"}, "not a classification dataset"),
        ({"model": {"channels": 2}}, r"model\.channels"),
    ],
)
def test_bad_settings(cls_spec, change, message):
    with pytest.raises(UserError, match=message):
        open_splits(cls_spec(**change))


def test_labels_and_images_must_have_the_same_number(cls_spec, idx_root):
    path = idx_root / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:4] + (99).to_bytes(4, "big") + path.read_bytes()[8:-1])
    with pytest.raises(UserError, match="99 labels for 100 images"):
        open_splits(cls_spec())
