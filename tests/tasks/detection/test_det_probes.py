"""Probes of a detector: global blocks only, shared states, and AP of images that can be resampled."""

import numpy as np
import pytest
import torch

from tap.config.measuring import ProbeConfig
from tap.criteria.registry import get
from tap.errors import UserError
from tap.paper.statistics import contributions
from tap.studies import probes as study
from tap.studies.probe_encoder import Probe
from tap.tasks.registry import get_task

CPU = torch.device("cpu")


@pytest.mark.slow
def test_probes_are_what_each_finds_alone_and_keep_rate_1_is_the_evaluation(det_spec):
    spec = det_spec()
    task = get_task(spec)
    model = task.build_model(spec)
    asked = [Probe(layer, get(name), 0.0) for layer in (3, 12) for name in ("random", "attention_mean")]
    found = study.measure(task, model, spec, asked, ProbeConfig(), CPU)
    alone = study.measure(task, model, spec, asked[3:], ProbeConfig(), CPU)[asked[3]]
    for name, values in alone.items():
        assert np.array_equal(found[asked[3]][name], values), name
    assert set(found[asked[0]]["final_tokens"]) == {8}
    arrays = {name: values for name, values in alone.items() if name not in ("sample_id", "final_tokens")}
    values, statistic = contributions("box_ap", arrays)
    assert statistic(values.sum(axis=0)[None])[0] == pytest.approx(task.score(spec, alone)["box_ap"])
    everything = study.measure(task, model, spec, asked[:1], ProbeConfig(keep_rate=1.0), CPU)
    expected = task.evaluate(model, spec, "validation", CPU).metrics
    for values in everything.values():
        scores = task.score(spec, values)
        assert scores == {name: expected[name] for name in scores}


def test_only_global_blocks_can_be_probed(det_spec):
    spec = det_spec()
    encoder = get_task(spec).build_model(spec).encoder
    assert study.eligible_layers(encoder, ProbeConfig()) == (3, 6, 9, 12)
    with pytest.raises(UserError, match="block 4 cannot be probed"):
        study.eligible_layers(encoder, ProbeConfig(layers=(3, 4)))
