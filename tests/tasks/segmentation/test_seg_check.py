import numpy as np
import pytest
from PIL import Image

from tap.errors import UserError
from tap.tasks.segmentation.check import check

COUNTS = {"training": 8, "validation": 3}


def test_a_right_folder(ade_root):
    report = check(ade_root, COUNTS, largest_label=4)
    assert report.ok, report.render()
    assert "training: 8 pairs, largest label 4, 0 label maps without any label" in report.render()


def test_every_fault_is_listed(ade_root):
    images, maps = ade_root / "images" / "training", ade_root / "annotations" / "training"
    stems = sorted(path.stem for path in images.iterdir())
    (images / f"{stems[0]}.jpg").unlink()
    (maps / f"{stems[1]}.png").unlink()
    content = (images / f"{stems[2]}.jpg").read_bytes()
    (images / f"{stems[2]}.jpg").write_bytes(content[: len(content) // 2])
    (maps / f"{stems[3]}.png").write_bytes(b"no picture")
    Image.fromarray(np.ones((9, 9), dtype=np.uint8)).save(maps / f"{stems[4]}.png")
    Image.fromarray(np.full((40, 48), 9, dtype=np.uint8)).save(maps / f"{stems[5]}.png")
    Image.fromarray(np.ones((40, 48, 3), dtype=np.uint8)).save(maps / f"{stems[6]}.png")
    Image.fromarray(np.zeros((40, 48), dtype=np.uint8)).save(maps / f"{stems[7]}.png")
    (images / "notes.txt").write_text("text")
    text = check(ade_root, COUNTS, largest_label=4).render()
    for part in (
        "images/training: 7 files, expected 8",
        "images/training: entries that are not .jpg files\n    notes.txt",
        f"images/training: files without a partner in annotations\n    {stems[1]}",
        f"annotations/training: files without a partner in images\n    {stems[0]}",
        f"{stems[2]}: image: cannot be read as an image",
        f"{stems[3]}: label map: cannot be read as a label map",
        f"{stems[4]}: label map of 9 x 9 for image of 48 x 40",
        f"{stems[5]}: label 9 is above 4",
        f"{stems[6]}: label map: not a label map but a picture of mode RGB",
        "1 label maps without any label",
    ):
        assert part in text
    assert stems[7] not in text


def test_the_check_takes_what_training_takes(ade_root):
    """Opaque RGBA and indexed images are read; transparent and 16-bit ones and label maps of one bit are not."""
    images, maps = ade_root / "images" / "validation", ade_root / "annotations" / "validation"
    stems = sorted(path.stem for path in images.iterdir())
    grey = np.random.default_rng(0).integers(0, 256, (40, 48), dtype=np.uint8)
    opaque = np.dstack([grey] * 3 + [np.full_like(grey, 255)])
    Image.fromarray(opaque).save(images / f"{stems[0]}.jpg", format="png")
    assert check(ade_root, COUNTS, largest_label=4).ok
    Image.fromarray(np.dstack([opaque[..., :3], grey])).save(images / f"{stems[0]}.jpg", format="png")
    Image.fromarray(grey.astype(np.uint16)).save(images / f"{stems[1]}.jpg", format="png")
    Image.fromarray(grey > 9).save(maps / f"{stems[2]}.png")
    (problem,) = check(ade_root, COUNTS, largest_label=4).problems
    assert problem.text == "validation: image and label map that cannot be used together"
    for item, stem, part in zip(problem.items, stems, ("transparent", "16 bits per channel", "mode 1"), strict=True):
        assert item.startswith(f"{stem}: ")
        assert part in item


def test_a_split_without_any_label_is_wrong(ade_root):
    for path in (ade_root / "annotations" / "validation").iterdir():
        Image.fromarray(np.zeros((40, 48), dtype=np.uint8)).save(path)
    (problem,) = check(ade_root, COUNTS, largest_label=4).problems
    assert problem.text.startswith("validation: every label map is void")


def test_the_full_set_is_expected_unless_told_otherwise(ade_root):
    text = check(ade_root).render()
    assert "images/training: 8 files, expected 20210" in text
    assert "annotations/validation: 3 files, expected 2000" in text


def test_long_lists_are_cut(ade_root):
    for number in range(30):
        (ade_root / "images" / "training" / f"extra_{number:02d}.txt").write_text("")
    assert "... and 10 more" in check(ade_root, COUNTS, largest_label=4).render()


def test_missing_folders(tmp_path):
    assert "folders missing" in check(tmp_path).render()
    with pytest.raises(UserError, match="not a folder"):
        check(tmp_path / "nowhere")
