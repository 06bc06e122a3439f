"""What captions say of drops is what the metrics say of themselves."""

from tap.paper.figures.captions import drop_words
from tap.task_facts import METRICS, Metric


def test_a_drop_is_what_is_lost_in_the_unit_of_its_metrics():
    assert drop_words(METRICS.values()).startswith(
        "A drop is no pruning minus the probe on the same images, in points,"
    )
    error = Metric("rmse", "RMSE", "px", higher_is_better=False)
    assert drop_words([error]).startswith("A drop is the probe minus no pruning on the same images, in px,")
    assert drop_words([METRICS["top1"], error]).startswith(
        "A drop is no pruning minus the probe (top-1) or the probe minus no pruning (RMSE) on the same images, in points or px"
    )
