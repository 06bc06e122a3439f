import numpy as np
import pytest

from tap.errors import UserError
from tap.paper.statistics import (
    Interval,
    accuracy,
    contributions,
    interval,
    mean_iou,
    point,
    replicates,
    resampled_correlation,
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


def test_views_of_one_place_are_drawn_together() -> None:
    """Against resampling the places one by one."""
    generator = np.random.default_rng(8)
    places = np.array([7, 3, 3, 7, 5, 3])
    arrays = {"confusion": confusions(generator, 6, 3), "place": places}
    values, statistic = contributions("miou", arrays)  # type: ignore[misc]
    picks = np.random.default_rng(5).integers(0, 3, size=(8, 3))
    slow = [
        slow_mean_iou(sum(arrays["confusion"][places == (3, 5, 7)[pick]].sum(axis=0) for pick in row)) for row in picks
    ]
    assert replicates(values, statistic, seed=5, draws=8) == pytest.approx(slow)
    assert point(values, statistic) == pytest.approx(slow_mean_iou(arrays["confusion"].sum(axis=0)))


def test_no_image_is_refused() -> None:
    with pytest.raises(UserError, match="no image"):
        replicates(np.ones((0, 2)), accuracy, seed=0)


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


def test_a_resampled_correlation_draws_items_too() -> None:
    """Without noise in the values, what is left is the choice of items."""
    generator = np.random.default_rng(2)
    a, b = generator.random(11), generator.random(11)
    drawn = resampled_correlation(np.tile(a, (300, 1)), b[None])
    assert drawn.shape == (300,)
    assert np.nanstd(drawn) == pytest.approx(1 / 10**0.5, rel=0.4)
    ordered = resampled_correlation(np.tile(a, (300, 1)), a[None])
    assert np.nanmin(ordered) == pytest.approx(1.0)
