import numpy as np
import pytest
import torch
from PIL import Image

from tap.tasks.segmentation.picture import _choose, _row, draw
from tap.tasks.segmentation.task import Segmentation

CPU = torch.device("cpu")


@pytest.fixture
def job(seg_spec):
    def make(method="tap", rate=0.5, channels=3):
        model = {"read_blocks": (3, 6, 9, 12), "head_channels": 8, "channels": channels}
        spec = seg_spec(model=model, mean=(0.5,) * channels, std=(0.25,) * channels)
        spec = spec.model_copy(update={"method": method, "rate": rate})
        return Segmentation().build_model(spec).eval(), spec

    return make


def test_the_same_model_gives_the_same_bytes(job, tmp_path):
    model, spec = job()
    first, second = (draw(model, spec, tmp_path / name, CPU, count=2) for name in ("a.png", "b.png"))
    assert first.read_bytes() == second.read_bytes()
    picture = np.asarray(Image.open(first))
    assert picture.shape[0] > 400
    assert picture.std() > 20


def test_removed_patches_are_darkened_in_their_places(job):
    model, spec = job()
    dataset = Segmentation().datasets(spec).validation
    row = _row(model, spec, dataset, 1, CPU)
    sample = dataset[1]
    trace = model.encoder(sample.image[None], return_trace=True).trace
    kept = trace.kept[9][0].view(4, 5)
    assert row.kept.shape == row.image.shape == (32, 38, 3)  # without the padding
    assert row.kept_title == "10 of 20 patches kept"
    for y in range(4):
        for x in range(5):
            patch = np.s_[8 * y : 8 * y + 8, 8 * x : 8 * x + 8]
            expected = (0.35 + 0.65 * row.image[patch]) * (1.0 if kept[y, x] else 0.2)
            np.testing.assert_allclose(row.kept[patch], expected, rtol=1e-5)


def test_without_pruning_every_patch_is_shown(job):
    model, spec = job("dense", 1.0)
    row = _row(model, spec, Segmentation().datasets(spec).validation, 0, CPU)
    assert row.kept_title == "20 of 20 patches kept"
    assert row.kept.min() >= 0.35


def test_a_grey_image_is_drawn(job, tmp_path):
    model, spec = job(channels=1)
    assert draw(model, spec, tmp_path / "tiles.png", CPU, count=50).is_file()  # more than the split has


def test_images_with_much_to_see_are_chosen(job):
    dataset = Segmentation().datasets(job()[1]).validation
    labels = torch.zeros(4, 4, dtype=torch.uint8)

    class Flat:
        def __len__(self):
            return 100

        def __getitem__(self, index):
            target = labels.clone()
            target[0, : index % 7 % 4] = 1
            return dataset[0]._replace(target=type(dataset[0].target)(target, (4, 4)))

    assert _choose(Flat(), 2) == [3, 52]  # the first ones of their halves with three pixels of class 1
