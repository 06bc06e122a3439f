"""A probe's protocol in words, for captions of tables and figures."""

from __future__ import annotations

from tap.paper.probe_results import ProbeResults
from tap.paper.tidy_probes import NO_PRUNING


def protocol(probe: ProbeResults) -> str:
    """Blocks, keep rate, endpoint, images and seeds of a probe in words."""
    pruned = probe.frame[probe.frame["criterion"] != NO_PRUNING]
    layers = probe.layers
    whole = layers == list(range(layers[0], layers[-1] + 1)) and len(layers) > 2
    blocks = f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
    endpoints = sorted(pruned["endpoint"].dropna().unique())
    endpoint = f", endpoint {endpoints[0]:g}" if len(endpoints) == 1 else ""
    seeds = ", ".join(map(str, probe.seeds))
    return (
        f"{probe.task}: blocks {blocks}, local keep rate {pruned['keep_rate'].iloc[0]:g}{endpoint}, "
        f"{pruned['images'].iloc[0]} images, seed{'s' if len(probe.seeds) > 1 else ''} {seeds}."
    )
