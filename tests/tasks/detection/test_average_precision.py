"""AP image by image, beside MMDetection's metric, pycocotools, and plain loops over resamples."""

import json

import numpy as np
import pytest
import torch
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tap.paper.statistics import contributions, replicates
from tap.tasks.detection.average_precision import average_precision, matches_of, mean_ap
from tap.tasks.detection.metrics import ap_scores, match
from tap.tasks.openmmlab import import_quietly

CocoMetric = import_quietly("mmdet.evaluation").CocoMetric
CLASSES, SIZE, ROOM = 3, (128, 160), 12
PARTS = {"": "", "50": "_50", "75": "_75", "_small": "_s", "_medium": "_m", "_large": "_l"}


def rectangle(box):
    mask = np.zeros(SIZE, dtype=np.uint8)
    left, top, right, bottom = (round(value) for value in box)
    mask[top:bottom, left:right] = 1
    return run_lengths.encode(np.asfortranarray(mask))


def text(code):
    return code | {"counts": code["counts"].decode()}


@pytest.fixture(scope="module")
def case():
    """Twelve images with objects of all sizes, crowds, near detections, false ones and tied scores."""
    rng = np.random.default_rng(3)
    truth, found = [], []
    for image in range(12):
        objects, detections = [], []
        for _ in range(0 if image == 4 else rng.integers(1, 7)):
            side = rng.choice([10, 40, 100])
            left, top = rng.integers(0, SIZE[1] - side), rng.integers(0, SIZE[0] - side)
            box = np.array([left, top, left + side, top + side])
            label = int(rng.integers(0, CLASSES - 1))
            crowd = int(rng.random() < 0.15)
            objects.append(
                {"category_id": label, "bbox": [*map(int, (left, top, side, side))], "area": int(side**2),
                 "iscrowd": crowd, "segmentation": text(rectangle(box))}
            )  # fmt: skip
            for _ in range(rng.integers(0, 3)):
                near = np.clip(box + rng.normal(0, side / 15, 4), 0, [SIZE[1], SIZE[0]] * 2)
                near[2:] = np.maximum(near[2:], near[:2] + 2)
                detections.append((near, label if rng.random() < 0.9 else 2))
        detections += [(np.array([5.0, 5.0, 30.0, 40.0]), int(rng.integers(0, CLASSES)))]
        scores = rng.permutation(20)[: len(detections)] / 20  # equal ones in different images only
        detections = [(*one, score) for one, score in zip(detections, scores, strict=True)]
        detections = sorted(detections, key=lambda one: -one[2])[:ROOM]
        truth.append(objects)
        found.append(
            {
                "bboxes": np.array([one[0] for one in detections], dtype=np.float32),
                "labels": np.array([one[1] for one in detections]),
                "scores": np.array([one[2] for one in detections], dtype=np.float32),
                "masks": [rectangle(np.clip(one[0], 0, [SIZE[1], SIZE[0]] * 2)) for one in detections],
            }
        )
    return truth, found


@pytest.fixture(scope="module")
def arrays(case):
    truth, found = case
    whole = match(truth, found, [SIZE] * len(truth), CLASSES, ROOM)
    groups = [slice(0, 5), slice(5, 10), slice(10, 12)]
    parts = [match(truth[part], found[part], [SIZE] * len(truth[part]), CLASSES, ROOM) for part in groups]
    for name, values in whole.items():  # what is found of an image does not depend on its batch
        np.testing.assert_array_equal(values, np.concatenate([part[name] for part in parts]))
    return whole


def reference_content(truth):
    images = [{"id": number, "height": SIZE[0], "width": SIZE[1], "file_name": ""} for number in range(len(truth))]
    annotations = [entry | {"image_id": image} for image, objects in enumerate(truth) for entry in objects]
    annotations = [entry | {"id": number} for number, entry in enumerate(annotations, start=1)]
    categories = [{"id": number, "name": f"class {number}"} for number in range(CLASSES)]
    return {"images": images, "annotations": annotations, "categories": categories}


def test_scores_are_those_of_mmdetection(case, arrays, tmp_path):
    truth, found = case
    file = tmp_path / "truth.json"
    file.write_text(json.dumps(reference_content(truth)))
    metric = CocoMetric(str(file), ["bbox", "segm"])
    metric.dataset_meta = {"classes": [f"class {number}" for number in range(CLASSES)]}
    for number, one in enumerate(found):
        instances = {name: torch.from_numpy(one[name]) for name in ("bboxes", "labels", "scores")}
        instances["masks"] = [dict(mask) for mask in one["masks"]]
        metric.process({}, [{"img_id": number, "ori_shape": SIZE, "pred_instances": instances}])
    expected = metric.evaluate(len(found))
    ours = ap_scores(arrays)
    for kind, name in (("box", "bbox"), ("mask", "segm")):
        for part, suffix in PARTS.items():
            theirs = expected[f"coco/{name}_mAP{suffix}"]
            assert ours[f"{kind}_ap{part}"] / 100 == pytest.approx(theirs, abs=5.01e-4)
    assert 5 < ours["box_ap"] < 95


@pytest.mark.parametrize("kind", ["box", "mask"])
def test_scores_are_those_of_pycocotools(case, arrays, kind, capsys):
    truth, found = case
    reference = COCO()
    reference.dataset = reference_content(truth)
    reference.createIndex()
    entries = []
    for image, one in enumerate(found):
        for box, label, score, mask in zip(one["bboxes"], one["labels"], one["scores"], one["masks"], strict=True):
            left, top, right, bottom = map(float, box)
            shape = {"bbox": [left, top, right - left, bottom - top]} if kind == "box" else {"segmentation": mask}
            entries.append({"image_id": image, "category_id": int(label), "score": float(score)} | shape)
    evaluation = COCOeval(reference, reference.loadRes(entries), "bbox" if kind == "box" else "segm")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    capsys.readouterr()
    ours = ap_scores(arrays)
    assert [ours[f"{kind}_ap{part}"] for part in PARTS] == pytest.approx(100 * evaluation.stats[:6])


def plain_ap(matches, drawn):
    """AP of drawn images with plain loops: every copy of an image is listed."""
    values = []
    for label in range(matches.objects.shape[1]):
        objects = sum(int(matches.objects[image, label]) for image in drawn)
        if not objects:
            continue
        for threshold in range(10):
            listed = []
            for image in drawn:
                for place in range(matches.labels.shape[1]):
                    bit = 1 << threshold
                    if matches.labels[image, place] == label and not matches.ignored[image, place] & bit:
                        listed.append((matches.scores[image, place], bool(matches.hits[image, place] & bit)))
            listed.sort(key=lambda one: -one[0])
            points, hits = [], 0
            for count, (_, hit) in enumerate(listed, start=1):
                hits += hit
                points.append((hits / objects, hits / count))
            steps = [max((p for r, p in points if r >= step), default=0.0) for step in np.linspace(0, 1, 101)]
            values.append(sum(steps) / 101)
    return 100 * sum(values) / len(values) if values else 0.0


@pytest.mark.parametrize("kind", ["box", "mask"])
def test_any_resample_is_what_listing_its_images_gives(arrays, kind):
    matches = matches_of(arrays, kind)
    # Sorted, since equal scores of several images are ordered by image.
    rng = np.random.default_rng(0)
    draws = [np.sort(rng.integers(0, 12, 12)) for _ in range(15)] + [np.arange(12), np.full(12, 4), np.full(12, 7)]
    counts = np.stack([np.bincount(drawn, minlength=12) for drawn in draws])
    assert mean_ap(matches, counts) == pytest.approx([plain_ap(matches, drawn) for drawn in draws])


def test_classes_without_objects_have_no_precision(arrays):
    values = average_precision(matches_of(arrays, "box"), np.ones((1, 12)))
    assert np.isnan(values[0, 2]).all()  # there are detections of class 2, but no objects
    assert not np.isnan(values[0, :2]).any()


def test_the_bootstrap_of_a_table_resamples_ap(arrays):
    values, statistic = contributions("box_ap", arrays)
    assert statistic(values.sum(axis=0)[None])[0] == pytest.approx(ap_scores(arrays)["box_ap"])
    resampled = replicates(values, statistic, seed=1, draws=50)
    assert resampled.std() > 1
    assert (resampled == replicates(values, statistic, seed=1, draws=50)).all()
    assert contributions("mask_ap", {"sample_id": np.arange(3)}) is None


def test_no_detections_at_all(case):
    truth, _ = case
    nothing = {"bboxes": np.zeros((0, 4)), "labels": np.zeros(0), "scores": np.zeros(0), "masks": []}
    arrays = match(truth, [nothing] * len(truth), [SIZE] * len(truth), CLASSES, ROOM)
    assert ap_scores(arrays)["box_ap"] == 0
    assert ap_scores(arrays)["mask_ap"] == 0
