"""Runs and quantities in words."""

from tap.paper.names import quantity, title_of


def test_runs_have_names():
    assert title_of("cls/tap/r0.50/main/s0") == "TAP-J, classification, keep rate 0.5, seed 0"
    assert title_of("cls/tap/r0.50/main") == "TAP-J, classification, keep rate 0.5"
    assert title_of("seg/dense/r1.00/random-encoder/s1") == "No pruning, segmentation, random encoder, seed 1"
    assert title_of("probes/det/recovery") == "Probe of the recovery endpoints, detection"
    assert title_of("profiles/cpu/x/cls") == "profiles/cpu/x/cls"


def test_quantities_have_names():
    assert quantity("box_ap") == "box AP"
    assert quantity("final_tokens_mean") == "patches at the end"
    assert quantity("removal_share_3") == "share of the budget at block 3"
    assert quantity("recovery_scale_6_sd") == "spread of the recovery scale at block 6"
    assert quantity("my_own-thing") == "my_own-thing"
    assert quantity("own_thing") == "own thing"
