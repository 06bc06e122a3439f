"""Data sets of a few images in the formats of ImageNet-1K, ADE20K and COCO, with what these hold of oddities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

WNIDS = ("n01440764", "n01443537", "n01484850")
COCO_CLASSES = 80


def imagenet(root: Path) -> Path:
    """Three classes with four training images and one to evaluate each: colour, grey, CMYK, and one turned by EXIF."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 1)):
        for name in WNIDS:
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture = Image.fromarray(rng.integers(0, 256, (300 + 20 * number, 400, 3), dtype=np.uint8))
                exif = Image.Exif()
                if number == 1:
                    picture = picture.convert("L")
                elif number == 2:
                    picture = picture.convert("CMYK")
                elif number == 3:
                    exif[0x0112] = 6
                picture.save(folder / f"{name}_{number}.JPEG", exif=exif)
    return root


def ade20k(root: Path) -> Path:
    """Six training images and two to evaluate, of sizes around a window; 150 classes, and void (0)."""
    rng = np.random.default_rng(1)
    for split, count in (("training", 6), ("validation", 2)):
        for kind in ("images", "annotations"):
            (root / kind / split).mkdir(parents=True)
        for number in range(count):
            size = (420 + 60 * number, 640)
            name = f"ADE_{'train' if split == 'training' else 'val'}_{number + 1:08d}"
            Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(
                root / "images" / split / f"{name}.jpg"
            )
            labels = np.kron(rng.integers(0, 151, (8, 8)), np.ones((size[0] // 8 + 1, 81))).astype(np.uint8)
            Image.fromarray(labels[: size[0], : size[1]]).save(root / "annotations" / split / f"{name}.png")
    return root


def coco(root: Path) -> Path:
    """Eight training images and two to evaluate: crowds, one without objects, and one of 60 x 50 pixels."""
    rng = np.random.default_rng(2)
    (root / "annotations").mkdir(parents=True)
    categories = [{"id": number + 1, "name": f"class {number}"} for number in range(COCO_CLASSES)]
    for split, count in (("train2017", 8), ("val2017", 2)):
        (root / split).mkdir()
        images, annotations = [], []
        for number in range(count):
            width, height = (60, 50) if number == 1 else (640, 480)
            name = f"{number:012d}.jpg"
            Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(root / split / name)
            images.append({"id": number, "file_name": name, "height": height, "width": width})
            if split == "train2017" and number == 2:
                continue  # an image without objects
            for index in range(3):
                left, top = width * (0.1 + 0.25 * index), height * 0.2
                side_x, side_y = width * 0.2, height * 0.5
                outline = [left, top, left + side_x, top, left + side_x, top + side_y, left, top + side_y]
                runs = [int(left) * height, int(side_x) * height, (width - int(left) - int(side_x)) * height]
                crowd = int(index == 2)
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": number,
                        "category_id": 1 + (7 * number + index) % COCO_CLASSES,
                        "bbox": [left, top, side_x, side_y],
                        "area": side_x * side_y,
                        "iscrowd": crowd,
                        "segmentation": {"size": [height, width], "counts": runs} if crowd else [outline],
                    }
                )
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return root
