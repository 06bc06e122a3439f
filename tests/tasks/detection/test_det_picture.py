import numpy as np
import pytest
import torch
from PIL import Image

from tap.tasks.detection.picture import _choose, _row, draw
from tap.tasks.detection.task import Detection

CPU = torch.device("cpu")


@pytest.fixture
def job(det_spec):
    spec = det_spec().model_copy(update={"method": "tap", "rate": 0.5})
    return Detection().build_model(spec).eval(), spec


def test_the_same_model_gives_the_same_bytes(job, tmp_path):
    model, spec = job
    first, second = (draw(model, spec, tmp_path / name, CPU, count=2) for name in ("a.png", "b.png"))
    assert first.read_bytes() == second.read_bytes()
    assert np.asarray(Image.open(first)).std() > 20


def test_objects_are_shown_where_they_lie(job):
    model, spec = job
    row = _row(model, spec, Detection().datasets(spec).validation, 1, CPU)
    assert row.image.shape == (27, 32, 3)  # of 40 x 48 pixels
    assert row.kept_title == "8 of 16 patches kept"
    block, triangle = row.truth
    assert (block.label, triangle.label) == (0, 1)  # no crowd
    # Image 1: columns 5 to 17, rows 20 to 36, at two thirds of the size.
    assert block.box == pytest.approx([5 * 2 / 3, 20 * 27 / 40, 17 * 2 / 3, 36 * 27 / 40])
    rows, columns = np.nonzero(block.mask)
    bounds = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert np.abs(np.array(bounds) - block.box).max() <= 1


def test_images_with_many_objects_are_chosen(job):
    dataset = Detection().datasets(job[1]).validation
    assert _choose(dataset, 1) == [0]
    assert _choose(dataset, 5) == [0, 1, 2]
