"""A part of a person's data set, stated in the settings, is what its check expects."""

import json

import numpy as np
import pytest
from PIL import Image

from tap.config.data import DataConfig
from tap.tasks.preparation import check_data


@pytest.fixture
def imagenet_root(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)
    for split, count in (("train", 4), ("val", 1)):
        for name in ("n01440764", "n01443537"):
            folder = tmp_path / "imagenet" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(pixels).save(folder / f"{number}.JPEG")
    return tmp_path / "imagenet"


PARTS = {
    "imagenet": ("imagenet_root", 2, (8, 2), "1281167"),
    "ade20k": ("ade_root", 4, (8, 3), "20210"),
    "coco": ("coco_root", 2, (8, 3), "118287"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_stated_part_is_right_and_the_whole_is_expected_otherwise(name, request, tmp_path, monkeypatch):
    root, classes, subset, complete = PARTS[name]
    root = request.getfixturevalue(root)
    monkeypatch.chdir(tmp_path)
    facts = {"calibration": 1, "num_classes": classes, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    data = DataConfig(name=name, root=str(root), subset=subset, **facts)
    found = check_data(data, tmp_path / "report.json")
    assert found.ok, found.render()
    stated = f"a stated part of the data set: {subset[0]} and {subset[1]} images, for a trial"
    assert stated in json.loads((tmp_path / "report.json").read_text())["facts"]
    other = check_data(data.model_copy(update={"subset": (subset[0] + 1, subset[1])}))
    assert any(f"expected {subset[0] + 1}" in problem.text for problem in other.problems)
    whole = check_data(data.model_copy(update={"subset": None}))
    assert any(f"expected {complete}" in problem.text for problem in whole.problems)
