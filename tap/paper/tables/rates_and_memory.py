"""TAP over keep rates, its operating points, spread over seeds and memory: `tab:keep-rates` and its relatives."""

from __future__ import annotations

from collections.abc import Iterator

from tap.config.methods import DENSE, TAP
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.tables.plain import PLUS_MINUS, Cells, Head, PlainTable
from tap.paper.tidy import PRIMARY_METRIC

_ALL = ("cls", "seg", "det")
_REGIMES = {TAP: "j", "tap_f": "f"}
_ENCODER, _FULL, _SPEEDUP, _PEAK = "encoder_images_per_second", "full_images_per_second", "encoder_speedup", "peak_gb"


def keep_rates(evidence: Evidence) -> Cells:
    """Score, spread, throughput and memory at every keep rate."""

    def cells() -> Iterator[tuple[tuple[str, str], Value | None]]:
        for task in _ALL:
            for method in _REGIMES:
                for rate in ("0.3", "0.5", "0.7"):
                    row, selector = f"{task}_{method}_{rate}", f"{method}@{rate}"
                    score = evidence.value(task, selector, PRIMARY_METRIC[task])
                    yield (row, "score"), score
                    yield (row, "score_sd"), _deviation(score)
                    yield (row, _ENCODER), evidence.value(task, selector, _ENCODER)
                    if task == "det":  # the paper lists the full model there only
                        yield (row, _FULL), evidence.value(task, selector, _FULL)
                    yield (row, _PEAK), evidence.value(task, selector, _PEAK)

    return _present(cells())


def verified_main(evidence: Evidence) -> Cells:
    """The operating points at the main rate."""

    def cells() -> Iterator[tuple[tuple[str, str], Value | None]]:
        for task in _ALL:
            score = PRIMARY_METRIC[task]
            for method in _REGIMES:
                row = f"{task}_{method}"
                yield (row, "score"), evidence.value(task, method, score)
                yield (row, "score_delta"), evidence.difference(task, method, DENSE, score)
                for metric in (_ENCODER, _SPEEDUP):
                    yield (row, metric), evidence.value(task, method, metric)
                if task == "det":
                    yield (row, _FULL), evidence.value(task, method, _FULL)

    return _present(cells())


def stability_memory(evidence: Evidence) -> Cells:
    """Spread over seeds and peak memory."""

    def cells() -> Iterator[tuple[tuple[str, str], Value | None]]:
        for task in _ALL:
            for method, suffix in _REGIMES.items():
                score = evidence.value(task, method, PRIMARY_METRIC[task])
                yield (task, f"score_{suffix}"), score
                yield (task, f"sd_{suffix}"), _deviation(score)

    return {**_present(cells()), **memory(evidence)}


def memory(evidence: Evidence) -> Cells:
    """Peak memory against no pruning."""

    def cells() -> Iterator[tuple[tuple[str, str], Value | None]]:
        for task in _ALL:
            base = evidence.value(task, DENSE, _PEAK)
            yield (task, "base_gb"), base
            for method, suffix in _REGIMES.items():
                peak = evidence.value(task, method, _PEAK)
                yield (task, f"peak_gb_{suffix}"), peak
                yield (task, f"change_{suffix}"), _change(peak, base)

    return _present(cells())


def _deviation(value: Value | None) -> Value | None:
    if value is None or value.sd is None:
        return None
    return Value(value.sd, None, value.seeds, value.runs)


def _change(peak: Value | None, base: Value | None) -> Value | None:
    if peak is None or base is None:
        return None
    return Value(100 * (peak.mean / base.mean - 1), None, peak.seeds, (*peak.runs, *base.runs))


def _present(cells: Iterator[tuple[tuple[str, str], Value | None]]) -> dict[tuple[str, str], Value]:
    return {key: value for key, value in cells if value is not None}


TABLES = (
    PlainTable(
        "tab:keep-rates",
        _ALL,
        "Keep-rate results for TAP-J (J) and TAP-F (F): top-1 accuracy, mIoU or box AP, images per second, peak memory",
        (
            Head(r"$\rho$", ("rate",)),
            Head(r"Score $\pm$ SD", ("score", "score_sd"), PLUS_MINUS),
            Head("Enc.", (_ENCODER,)),
            Head("Full", (_FULL,)),
            Head("GB", (_PEAK,)),
        ),
        keep_rates,
        words=("task", "rate"),
    ),
    PlainTable(
        "tab:verified-main",
        _ALL,
        "TAP at the main keep rate, with changes from no pruning and ratios to the dense encoder of the same process,",
        (
            Head("Score", ("score",)),
            Head(r"$\Delta$", ("score_delta",)),
            Head("Enc. im/s", (_ENCODER,)),
            Head("Speedup", (_SPEEDUP,)),
        ),
        verified_main,
    ),
    PlainTable(
        "tab:stability-memory",
        _ALL,
        "Variation between runs and peak inference memory at the main keep rate, TAP-J/TAP-F,",
        (
            Head("Score", ("score_j", "score_f"), "/"),
            Head("Std.", ("sd_j", "sd_f"), "/"),
            Head("Base", ("base_gb",)),
            Head("Peak GB", ("peak_gb_j", "peak_gb_f"), "/"),
            Head(r"$\Delta$ (\%)", ("change_j", "change_f"), "/"),
        ),
        stability_memory,
    ),
    PlainTable(
        "tab:memory",
        _ALL,
        "Peak full-model inference memory in GB at the main keep rate",
        (
            Head("Base", ("base_gb",)),
            Head("TAP-J", ("peak_gb_j",)),
            Head("TAP-F", ("peak_gb_f",)),
            Head(r"Change J/F (\%)", ("change_j", "change_f"), "/"),
        ),
        memory,
    ),
)
