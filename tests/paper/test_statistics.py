import numpy as np
import pytest

from tap.errors import UserError
from tap.paper.statistics import (
    Interval,
    accuracy,
    contributions,
    interval,
    mean_iou,
    paired_interval,
    replicates,
    sample_sd,
    spearman,
)


def confusions(generator: np.random.Generator, images: int, classes: int) -> np.ndarray:
    return generator.integers(0, 20, size=(images, classes, classes)).astype(float)


def slow_mean_iou(matrix: np.ndarray) -> float:
    ious = []
    for label in range(len(matrix)):
        union = matrix[label, :].sum() + matrix[:, label].sum() - matrix[label, label]
        if union:
            ious.append(matrix[label, label] / union)
    return 100.0 * sum(ious) / len(ious)


def test_mean_iou_against_loops_with_an_absent_class() -> None:
    generator = np.random.default_rng(0)
    stack = confusions(generator, 5, 4)
    stack[2, 1, :] = stack[2, :, 1] = 0
    assert mean_iou(stack) == pytest.approx([slow_mean_iou(matrix) for matrix in stack])


@pytest.mark.parametrize("metric", ["top1", "miou"])
def test_replicates_against_resampling_image_by_image(metric: str) -> None:
    generator = np.random.default_rng(1)
    arrays = {"correct": generator.random(30) < 0.7, "confusion": confusions(generator, 30, 3)}
    found = contributions(metric, arrays)
    assert found is not None
    values, statistic = found
    picks = np.random.default_rng(5).integers(0, 30, size=(8, 30))
    slow = [float(statistic(sum(values[image] for image in pick)[None])[0]) for pick in picks]
    assert replicates(values, statistic, seed=5, draws=8) == pytest.approx(slow)


def test_pieces_do_not_change_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    values = contributions("top1", {"correct": np.arange(50) % 3 == 0})[0]  # type: ignore[index]
    whole = replicates(values, accuracy, seed=2, draws=64)
    monkeypatch.setattr("tap.paper.statistics._CELLS", 150)
    assert np.array_equal(replicates(values, accuracy, seed=2, draws=64), whole)
    assert not np.array_equal(replicates(values, accuracy, seed=3, draws=64), whole)


def test_metrics_without_per_image_values_have_no_bootstrap() -> None:
    assert contributions("box_ap", {"correct": np.ones(3, bool)}) is None
    assert contributions("top1", {"confusion": np.ones((3, 2, 2))}) is None


def test_paired_interval_of_equal_methods_is_a_point() -> None:
    values = contributions("top1", {"correct": np.random.default_rng(0).random(200) < 0.5})[0]  # type: ignore[index]
    assert paired_interval([values, values], [values, values], accuracy, seed=0, draws=50) == Interval(0.0, 0.0, 0.0)


def test_pairing_shortens_the_interval() -> None:
    generator = np.random.default_rng(3)
    easy = generator.random(400) < 0.8
    better = easy | (generator.random(400) < 0.1)
    ours, theirs = (np.stack([item, np.ones(400)], axis=1) for item in (better, easy))
    paired = paired_interval([ours], [theirs], accuracy, seed=0, draws=500)
    shuffled = theirs[generator.permutation(400)]
    unpaired = paired_interval([ours], [shuffled], accuracy, seed=0, draws=500)
    assert paired.estimate == pytest.approx(unpaired.estimate)
    assert paired.high - paired.low < 0.7 * (unpaired.high - unpaired.low)
    assert paired.sign == 1


def test_seeds_share_their_resamples() -> None:
    """Two identical seeds hold no more information about the images than one."""
    generator = np.random.default_rng(4)
    ours, theirs = (np.stack([generator.random(300) < p, np.ones(300)], axis=1) for p in (0.8, 0.7))
    once = paired_interval([ours], [theirs], accuracy, seed=1, draws=200)
    thrice = paired_interval([ours] * 3, [theirs] * 3, accuracy, seed=1, draws=200)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_coverage_of_a_known_difference() -> None:
    """P(ours right) - P(theirs right) is 0.1; 95 % intervals must cover it in about 95 % of 300 data sets."""
    generator = np.random.default_rng(6)
    outcomes = np.array([[1, 1], [1, 0], [0, 1], [0, 0]])
    covered = 0
    for trial in range(300):
        pairs = outcomes[generator.choice(4, size=150, p=[0.6, 0.2, 0.1, 0.1])]
        ours, theirs = (np.stack([pairs[:, side], np.ones(150)], axis=1) for side in (0, 1))
        found = paired_interval([ours], [theirs], accuracy, seed=trial, draws=200)
        covered += found.low <= 10.0 <= found.high
    assert 0.91 <= covered / 300 <= 0.98


@pytest.mark.parametrize(
    ("method", "reference", "message"),
    [
        ([], [], "0 seeds against 0"),
        ([np.ones((3, 2))], [np.ones((3, 2))] * 2, "1 seeds against 2"),
        ([np.ones((3, 2))], [np.ones((4, 2))], "cannot be paired"),
        ([np.ones((0, 2))], [np.ones((0, 2))], "no image"),
    ],
)
def test_what_cannot_be_paired_is_refused(method: list, reference: list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        paired_interval(method, reference, accuracy, seed=0)


def test_sample_sd() -> None:
    assert sample_sd([1.0, 3.0]) == pytest.approx(2.0**0.5)
    assert sample_sd([1.0]) is None


def test_interval_takes_both_tails() -> None:
    found = interval(5.0, np.arange(101.0), level=0.9)
    assert (found.low, found.high) == pytest.approx((5.0, 95.0))
    assert [Interval(0, *bounds).sign for bounds in ((0.1, 2), (-2, -0.1), (-1, 1), (0, 1))] == [1, -1, 0, 0]


def test_ties_share_the_mean_of_their_ranks() -> None:
    expected = np.corrcoef([3.5, 1.0, 3.5, 2.0], [1.0, 2.0, 3.0, 4.0])[0, 1]
    assert float(spearman(np.array([3.0, 1.0, 3.0, 2.0]), np.arange(4.0))) == pytest.approx(expected)


def test_spearman_of_the_papers_dense_rankings() -> None:
    """Ranks of tab:criterion-summary, whose correlation the paper prints as -0.62."""
    seg = np.array([3, 10, 9, 6, 4, 2, 1, 8, 5, 7, 11])
    det = np.array([7, 3, 2, 4, 5, 6, 11, 10, 9, 8, 1])
    assert round(float(spearman(seg, det)), 2) == -0.62
    assert spearman(np.stack([seg, -seg]), seg[None]).tolist() == pytest.approx([1.0, -1.0])
    assert np.isnan(spearman(np.ones(4), np.arange(4)))
