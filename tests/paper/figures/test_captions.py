"""What captions say of drops is what the metrics say of themselves."""

from tap.paper.figures.captions import drop_words
from tap.task_facts import METRICS, Metric


def test_a_drop_is_what_is_lost_in_the_unit_of_its_metrics():
    error = Metric("rmse", "RMSE", "px", higher_is_better=False)
    percent, pixels, both = (drop_words(some) for some in (METRICS.values(), [error], [METRICS["top1"], error]))
    assert percent.startswith("A drop is no pruning minus the probe on the same images, in points, with")
    assert pixels.startswith("A drop is the probe minus no pruning on the same images, in px, with")
    assert "no pruning minus the probe (top-1) or the probe minus no pruning (RMSE) on" in both
    assert "in points or px," in both
