import numpy as np
import pytest
import torch

from tap.errors import UserError
from tap.paper.statistics import mean_iou
from tap.tasks.segmentation.metrics import class_areas, confusion_matrix, iou_scores
from tap.tasks.segmentation.mmseg_parts import IoUMetric

CLASSES = 5


def random_images(count=4, void=0.3):
    generator = torch.Generator().manual_seed(1)
    pairs = []
    for number in range(count):
        size = (7 + number, 9)
        prediction = torch.randint(0, CLASSES, size, generator=generator)
        label = torch.randint(0, CLASSES - 1, size, generator=generator)  # the last class is only predicted
        label[torch.rand(size, generator=generator) < void] = 255
        pairs.append((prediction, label))
    return pairs


def scores_of(pairs, classes=CLASSES):
    confusion = torch.stack([confusion_matrix(*pair, classes) for pair in pairs]).numpy()
    return iou_scores(class_areas(confusion).sum(axis=0))


def test_areas_are_those_that_mmsegmentation_counts():
    for pair in random_images():
        hits, union, predicted, labelled = (
            area.long().tolist() for area in IoUMetric.intersect_and_union(*pair, CLASSES, 255)
        )
        areas = class_areas(confusion_matrix(*pair, CLASSES).numpy())
        assert areas.tolist() == [hits, predicted, labelled]
        assert (areas[1] + areas[2] - areas[0]).tolist() == union


def test_mean_iou_is_that_of_a_loop_over_pixels():
    pairs = random_images()
    hits, union = np.zeros(CLASSES), np.zeros(CLASSES)
    right = known = 0
    for prediction, label in pairs:
        for p, t in zip(prediction.flatten().tolist(), label.flatten().tolist(), strict=True):
            if t == 255:
                continue
            known, right = known + 1, right + (p == t)
            for number in range(CLASSES):
                hits[number] += p == t == number
                union[number] += number in (p, t)
    scores = scores_of(pairs)
    assert scores["miou"] == pytest.approx(100 * np.mean(hits / union))
    assert scores["pixel_accuracy"] == pytest.approx(100 * right / known)
    for number in range(CLASSES):
        assert scores[f"iou_{number}"] == pytest.approx(100 * hits[number] / union[number])


def test_the_confusion_matrices_hold_all_that_the_score_needs():
    pairs = random_images()
    matrices = [confusion_matrix(*pair, CLASSES) for pair in pairs]
    for matrix, (_, label) in zip(matrices, pairs, strict=True):
        assert matrix.dtype == torch.int64
        assert matrix.sum() == (label != 255).sum()
        assert matrix.sum(dim=1).tolist() == [(label == number).sum() for number in range(CLASSES)]
    assert float(mean_iou(torch.stack(matrices).sum(dim=0).double().numpy())) == pytest.approx(scores_of(pairs)["miou"])


def test_predictions_on_void_change_nothing():
    pairs = random_images()
    before = scores_of(pairs)
    for prediction, label in pairs:
        prediction[label == 255] = 0
    assert scores_of(pairs) == before


def test_an_image_of_void_adds_nothing():
    pairs = random_images()
    void = (torch.zeros(6, 6, dtype=torch.int64), torch.full((6, 6), 255))
    assert scores_of([*pairs, void]) == scores_of(pairs)
    assert confusion_matrix(*void, CLASSES).sum() == 0


def test_a_class_that_does_not_occur_has_no_score():
    ones = torch.ones(4, 4, dtype=torch.int64)
    scores = scores_of([(ones, ones)])
    assert scores["miou"] == 100.0
    assert [name for name in scores if name.startswith("iou_")] == ["iou_1"]


def test_the_floor_is_the_score_of_the_most_frequent_class_everywhere():
    pairs = random_images()
    known = torch.cat([label[label != 255] for _, label in pairs])
    most = int(known.mode().values)
    constant = scores_of([(torch.full_like(label, most), label) for _, label in pairs])
    assert scores_of(pairs)["constant_miou"] == pytest.approx(constant["miou"])


def test_sums_are_exact_beyond_float32():
    areas = np.array([[2**25 + 1, 0], [2**25 + 1, 1], [2**25 + 2, 0]])
    scores = iou_scores(areas)
    assert scores["iou_0"] == 100 * (2**25 + 1) / (2**25 + 2)


def test_a_split_of_void_is_refused():
    with pytest.raises(UserError, match="void"):
        scores_of([(torch.zeros(2, 2, dtype=torch.int64), torch.full((2, 2), 255))])
