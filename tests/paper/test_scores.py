"""Scores from the values of single images, against what the libraries of evaluation state."""

import numpy as np
import pytest

from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.scores import differing, read_arrays, scores_of
from tap.tasks.detection.metrics import ap_scores
from tap.tasks.segmentation.metrics import class_areas, iou_scores

IMAGES = 30


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def detections(rng, classes=3, room=6):
    """Any detections, matched in any way."""
    labels = rng.integers(-1, classes, (IMAGES, room)).astype(np.int16)
    arrays = {
        "labels": labels,
        "scores": np.sort(rng.random((IMAGES, room)).astype(np.float32))[:, ::-1],
        "objects": rng.integers(0, 4, (IMAGES, 4, classes)),
    }
    arrays["objects"][:, 3] = 0  # no large ones
    for kind in ("box", "mask"):
        arrays[f"{kind}_hits"] = rng.integers(0, 2**10, (IMAGES, 4, room)).astype(np.uint16)
        arrays[f"{kind}_ignored"] = rng.integers(0, 2, (IMAGES, 4, room)).astype(np.uint16)
    return arrays


def test_segmentation_as_the_metric_of_mmsegmentation_states_it(rng):
    confusion = rng.integers(0, 50, (IMAGES, 5, 5))
    confusion[:, 4, :] = confusion[:, :, 4] = 0  # a class that never occurs has no IoU
    stated = iou_scores(class_areas(confusion).sum(axis=0))
    for arrays in ({"confusion": confusion}, {"areas": class_areas(confusion)}):
        assert scores_of("seg", arrays) == pytest.approx(stated, rel=1e-12)
    assert "iou_4" not in stated


def test_detection_as_evaluation_states_it_with_bands_and_thresholds(rng):
    arrays = detections(rng)
    given = scores_of("det", arrays)
    assert given == pytest.approx(ap_scores(arrays), rel=1e-12)
    assert {"box_ap75", "mask_ap50", "box_ap_small", "mask_ap_medium"} < given.keys()
    assert "box_ap_large" not in given


def test_classification_and_counts(rng):
    correct, tokens = rng.random(IMAGES) < 0.7, rng.integers(20, 40, IMAGES)
    given = scores_of("cls", {"correct": correct, "final_tokens": tokens, "sample_id": np.arange(IMAGES)})
    assert given == {
        "top1": pytest.approx(100 * sum(correct) / IMAGES),
        "final_tokens_mean": pytest.approx(sum(tokens) / IMAGES),
        "final_tokens_sd": pytest.approx((sum((tokens - sum(tokens) / IMAGES) ** 2) / IMAGES) ** 0.5),
        "images": IMAGES,
    }


def test_what_arrays_do_not_hold_has_no_score():
    assert scores_of("det", {"correct": np.ones(3, bool)}) == {}


def test_a_stated_score_is_held_against_the_one_that_is_given():
    stated = {"top1": 88.3, "images": 9.0, "encoder_speedup": 1.3, "device": "a processor"}
    given = {"top1": 82.27, "images": 9.0}
    assert differing("metrics.json", stated, given) == [Difference("metrics.json", "top1", 88.3, 82.27)]
    assert str(differing("m", stated, given)[0]) == "m: top1: recorded 88.3, recomputed 82.27"


def test_a_complete_file_states_all_scores_and_no_other():
    stated, given = {"box_ap": 9.0, "box_ap_large": 5.0, "parameters": 7}, {"box_ap": 9.0, "box_ap50": 1.0}
    assert differing("m", stated, given) == []
    found = differing("m", stated, given, complete=True)
    assert [str(item) for item in found] == [
        "m: box_ap50: recorded nothing, recomputed 1.0",
        "m: box_ap_large: recorded 5.0, recomputed nothing",
    ]


def test_the_last_digit_may_differ_and_no_other():
    assert same(82.27, 82.27 * (1 + 1e-12))
    assert not same(82.27, 82.2700001)
    assert not same("82.27", 82.27)
    assert not same(float("nan"), 82.27)


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "per_sample.npz").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"per_sample\.npz: cannot be read as per-image results"):
        read_arrays(tmp_path / "per_sample.npz")
