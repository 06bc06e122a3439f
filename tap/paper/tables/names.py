"""Groups of tables by what they are made from; each is one job. Imports nothing, so that the workflow can read it."""

from __future__ import annotations

from typing import Final

OF_RATES: Final = ("tab_keep_rates", "tab_verified_main", "tab_stability_memory", "tab_memory")
"""Functions of the tidy tables of all tasks."""

OF_PROBES: Final = ("tab_criterion_summary", "tab_paired_recovery")
"""Functions of the tidy tables of the probes."""

OF_SETTINGS: Final = (
    "tab_training_config",
    "tab_parameters",
    "tab_budget_tests",
    "tab_criteria",
    "tab_baseline_provenance",
    "tab_dense_baseline_provenance",
)
"""Functions of the settings and of code; no run is needed."""
