"""What follows from what within the paper: printed results recomputed from printed operands (`tap paper check`)."""

from tap.paper.consistency import ablations, costs, main, probes
from tap.paper.consistency.rule import Finding, Rule

RULES: tuple[Rule, ...] = (*main.RULES, *ablations.RULES, *probes.RULES, *costs.RULES)
"""All rules; each has a stable id."""


def findings() -> list[Finding]:
    """What all rules find."""
    return [finding for rule in RULES for finding in rule.findings()]
