"""The main tables, the keep rates, and what the text says of them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tap.paper.consistency.rule import (
    Finding,
    Rule,
    cell,
    cells,
    check,
    difference,
    holds,
    number,
    percent_change,
    ratio,
    same,
)
from tap.paper.reported import load_reported
from tap.paper.statements import stated

MAIN_SCORES = {"tab:seg": ("miou",), "tab:cls": ("top1",), "tab:det": ("box_ap", "mask_ap")}
MAIN_OF_TASK = {"cls": ("tab:cls", "top1"), "seg": ("tab:seg", "miou"), "det": ("tab:det", "box_ap")}
_ENCODER, _FULL = "encoder_images_per_second", "full_images_per_second"
_REGIMES = (("tap", "j"), ("tap_f", "f"))


def main_deltas() -> Iterator[Finding]:
    """Changes from no pruning."""
    for label, scores in MAIN_SCORES.items():
        for row in load_reported(label).rows[1:]:
            for score in scores:
                value, dense = cell(label, row.key, score), cell(label, "dense", score)
                delta = cell(label, row.key, f"{score}_delta")
                yield check(f"{label}/{row.key}", f"{score} - no pruning", delta, difference, value, dense)


def main_multipliers() -> Iterator[Finding]:
    """Throughput over no pruning, where it is printed."""
    for label in ("tab:seg", "tab:cls"):
        for row in load_reported(label).rows[1:]:
            rates = (cell(label, key, _ENCODER) for key in (row.key, "dense"))
            printed = cell(label, row.key, "encoder_speedup")
            yield check(f"{label}/{row.key}", "im/s over no pruning", printed, ratio, *rates)


def main_bold() -> Iterator[Finding]:
    """What is bold is the best of the fully fine-tuned rows."""
    for label, scores in MAIN_SCORES.items():
        full = [row.key for row in load_reported(label).rows if row.regime == "full"]
        for score in scores:
            best = max(number(value) for value in cells(label, full, score))
            bold = [row.key for row in load_reported(label).rows if score in row.bold]
            right = all(number(cell(label, key, score)) == best for key in bold) and bool(bold)
            yield holds(
                f"{label}/{score}", "largest of the fully fine-tuned rows", f"bold: {', '.join(bold)}", best, right
            )


def verified() -> Iterator[Finding]:
    """The collected operating points are those of the main tables."""
    label = "tab:verified-main"
    for task, (main, score) in MAIN_OF_TASK.items():
        for method, _ in _REGIMES:
            row, where = f"{task}_{method}", f"{label}/{task}_{method}"
            for column, other in (("score", score), (_ENCODER, _ENCODER), ("score_delta", f"{score}_delta")):
                yield check(where, f"{other} of {main}", cell(label, row, column), same, cell(main, method, other))
            rates = (cell(main, key, _ENCODER) for key in (method, "dense"))
            yield check(where, "im/s over no pruning", cell(label, row, "encoder_speedup"), ratio, *rates)
    for method, _ in _REGIMES:
        printed = cell(label, f"det_{method}", _FULL)
        yield check(f"{label}/det_{method}", f"{_FULL} of tab:det", printed, same, cell("tab:det", method, _FULL))


def keep_rate_anchor() -> Iterator[Finding]:
    """The rows at rho 0.5 are those of the main tables and of the stability table."""
    label, stability = "tab:keep-rates", "tab:stability-memory"
    for task, (main, score) in MAIN_OF_TASK.items():
        for method, suffix in _REGIMES:
            row, where = f"{task}_{method}_0.5", f"{label}/{task}_{method}_0.5"
            yield check(where, f"score of {main}", cell(label, row, "score"), same, cell(main, method, score))
            yield check(where, f"im/s of {main}", cell(label, row, _ENCODER), same, cell(main, method, _ENCODER))
            for column, other in (("score_sd", f"sd_{suffix}"), ("peak_gb", f"peak_gb_{suffix}")):
                printed = cell(stability, task, other)
                yield check(where, f"{other} of {stability}", cell(label, row, column), same, printed)


def stability_scores() -> Iterator[Finding]:
    """The scores of the stability table are those of the main tables."""
    label = "tab:stability-memory"
    for task, (main, score) in MAIN_OF_TASK.items():
        for method, suffix in _REGIMES:
            printed = cell(label, task, f"score_{suffix}")
            yield check(f"{label}/{task} {method}", f"{score} of {main}", printed, same, cell(main, method, score))


def text_losses() -> Iterator[Finding]:
    """Losses and gains that the text states."""
    for task, (label, score) in MAIN_OF_TASK.items():
        pairs = {
            "tap-loss": ("no pruning - TAP-J", "dense", "tap"),
            "tap-f-loss": ("no pruning - TAP-F", "dense", "tap_f"),
            "gain-over-static": ("TAP-J - static rule", "tap", "static"),
        }
        for name, (formula, first, second) in pairs.items():
            operands = (cell(label, key, score) for key in (first, second))
            yield check(f"text/{name} {task}", formula, stated(name, task), difference, *operands)
    operands = (cell("tab:cls", key, "top1") for key in ("diffrate", "tap"))
    yield check("text/behind-diffrate", "DiffRate - TAP-J", stated("behind-diffrate", "top1"), difference, *operands)


def text_scores() -> Iterator[Finding]:
    """Scores and throughput that abstract and text repeat."""
    for name, part, label, column in (
        ("abstract-seg", "miou", "tab:seg", "miou"),
        ("abstract-det", "box_ap", "tab:det", "box_ap"),
        ("cls-score", "top1", "tab:cls", "top1"),
    ):
        yield check(f"text/{name} {part}", f"{column} of {label}", stated(name, part), same, cell(label, "tap", column))
    for name, part, task in (
        ("abstract-seg", "speedup", "seg"),
        ("abstract-det", "speedup", "det"),
        ("encoder-speedup", "cls", "cls"),
        ("encoder-speedup", "seg", "seg"),
        ("encoder-speedup", "det", "det"),
    ):
        rates = (cell(MAIN_OF_TASK[task][0], key, _ENCODER) for key in ("tap", "dense"))
        yield check(f"text/{name} {part}", "enc. im/s over no pruning", stated(name, part), ratio, *rates)
    full = (cell("tab:det", key, _FULL) for key in ("tap", "dense"))
    yield check("text/full-speedup", "full im/s over no pruning", stated("full-speedup", "det"), ratio, *full)


def text_orders() -> Iterator[Finding]:
    """Which method is best, equal or behind."""
    for label in ("tab:seg", "tab:det"):
        others = [row.key for row in load_reported(label).rows if row.regime == "full" and row.key != "tap"]
        for score in MAIN_SCORES[label]:
            margin = number(cell(label, "tap", score)) - max(number(item) for item in cells(label, others, score))
            where = f"text/smallest drop {label} {score}"
            yield holds(where, "TAP-J - best other fully fine-tuned row", "> 0", margin, margin > 0)
    ours = cell("tab:cls", "tap", "top1")
    for other in ("tome", "cropr"):
        yield check(f"text/matches {other}", f"top1 of {other}", ours, same, cell("tab:cls", other, "top1"))
    gains = {task: number(stated("gain-over-static", task)) for task in MAIN_OF_TASK}
    least = min(gains["seg"], gains["det"]) - gains["cls"]
    yield holds(
        "text/largest gains on dense tasks", "smaller dense gain - classification gain", "> 0", least, least > 0
    )


def text_keep_rates() -> Iterator[Finding]:
    """What the text says of rho 0.5 against 0.7."""
    label, bound = "tab:keep-rates", stated("keep-rate-balance", "points")
    for task in MAIN_OF_TASK:
        loss = difference(*(number(cell(label, f"{task}_tap_{rate}", "score")) for rate in ("0.7", "0.5")))
        where = f"text/keep-rate-balance {task}"
        yield holds(where, "rho 0.7 - rho 0.5 of TAP-J", f"<= {bound.text}", loss, loss <= number(bound))
        scores = (cell(label, f"{task}_tap_f_{rate}", "score") for rate in ("0.7", "0.5"))
        printed = stated("keep-rate-loss-f", task)
        yield check(f"text/keep-rate-loss-f {task}", "rho 0.7 - rho 0.5 of TAP-F", printed, difference, *scores)
        gain = percent_change(*(number(cell(label, f"{task}_tap_{rate}", _ENCODER)) for rate in ("0.5", "0.7")))
        least, most = (stated("keep-rate-gain", part) for part in ("least", "most"))
        inside = least.low <= gain <= most.high
        where, shown = f"text/keep-rate-gain {task}", f"{least.text} to {most.text}"
        yield holds(where, "percent of im/s, rho 0.5 over 0.7", shown, gain.quantize(Decimal("0.01")), inside)


def text_deviations() -> Iterator[Finding]:
    """No standard deviation is above the stated one."""
    label, bound = "tab:keep-rates", stated("largest-sd", "points")
    for rate in ("0.3", "0.5", "0.7"):
        rows = [row.key for row in load_reported(label).rows if row.key.endswith(rate)]
        worst = max(number(item) for item in cells(label, rows, "score_sd"))
        where = f"text/largest-sd rho {rate}"
        yield holds(where, "largest SD of tab:keep-rates", f"<= {bound.text}", worst, worst <= number(bound))


RULES = (
    Rule("main-deltas", "Changes are score minus no pruning", main_deltas),
    Rule("main-multipliers", "Multipliers are throughput over no pruning", main_multipliers),
    Rule("main-bold", "Bold is the best fully fine-tuned result", main_bold),
    Rule("verified-main", "tab:verified-main repeats the main tables", verified),
    Rule("keep-rate-anchor", "tab:keep-rates at 0.5 repeats the main and stability tables", keep_rate_anchor),
    Rule("stability-scores", "tab:stability-memory repeats the main scores", stability_scores),
    Rule("text-losses", "Losses and gains in the text follow from the main tables", text_losses),
    Rule("text-scores", "Scores and speed-ups in abstract and text are those of the tables", text_scores),
    Rule("text-orders", "Orders that the text states hold in the tables", text_orders),
    Rule("text-keep-rates", "Statements on keep rates hold in tab:keep-rates", text_keep_rates),
    Rule("text-deviations", "Standard deviations stay below the stated one", text_deviations),
)
