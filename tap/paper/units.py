"""Units of scores: what a number of a metric can be, and what a column or an axis of scores calls its unit."""

from __future__ import annotations

import pandas as pd

from tap.task_facts import METRICS, TASKS, Metric

_PERCENT = "%"


def unit_of(metric: Metric) -> str:
    """What tidy tables call the metric's unit."""
    return "percent" if metric.unit == _PERCENT else metric.unit


def in_unit(metric: Metric, unit: str) -> str:
    """The unit of a column of scores (`percent`), differences (`points`) or losses (`points lost`) of a metric."""
    if metric.unit == _PERCENT:
        return unit
    own = {"percent": metric.unit, "points": f"{metric.unit}, change", "points lost": f"{metric.unit}, lost"}
    return own.get(unit, unit)


def axis_of(metric: Metric) -> str:
    """What an axis of differences calls their unit."""
    return "pp" if metric.unit == _PERCENT else metric.unit


def points_of(metric: Metric) -> str:
    """The unit of its differences in words."""
    return "points" if metric.unit == _PERCENT else metric.unit


def text_of_score(metric: Metric, value: float) -> str:
    """A score in a sentence: a percentage has one place."""
    return f"{value:.1f}" if metric.unit == _PERCENT else f"{value:.2f} {metric.unit}"


def losses() -> str:
    """What is lost in every task, in words: its score, and the unit of what is lost of it."""
    scores = [facts.score for facts in TASKS.values()]
    titles: dict[str, list[str]] = {}
    for score in scores:
        titles.setdefault(points_of(score), []).append(score.title)
    return ", ".join(f"in {unit} ({', '.join(of_unit)})" for unit, of_unit in titles.items())


PERCENTAGES = tuple(name for name, metric in METRICS.items() if metric.unit == _PERCENT)
"""Metrics between 0 and 100."""

UNITS = {name: unit_of(metric) for name, metric in METRICS.items()}
"""Unit of every metric that a task is judged by."""


def outside(frame: pd.DataFrame, percentages: tuple[str, ...] = PERCENTAGES) -> pd.Series:
    """The rows of a tidy table whose `value` its `metric` cannot have: no finite number, or no percentage.

    Args:
        frame: with the columns `metric` and `value`.
        percentages: metrics that are between 0 and 100.
    """
    value = frame["value"]
    return ~(value.abs() < float("inf")) | (frame["metric"].isin(percentages) & ~value.between(0.0, 100.0))
