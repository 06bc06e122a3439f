"""Which jobs are replayed in full: the first seed of the same settings."""

from tap.provenance.ledger import Record
from tap.recertify.recertify import of_further_seeds


def test_only_further_seeds_of_the_same_job_and_settings_are_brief():
    jobs = [
        ("train", "desk/cls/tap/r0.50/main/s0"),
        ("evaluate", "desk/cls/tap/r0.50/main/s0"),
        ("train", "desk/cls/tap/r0.50/main/s2"),
        ("train", "desk/cls/tap/r0.30/main/s2"),
        ("train", "desk/seg/tap/r0.50/main/s2"),
        ("evaluate", "desk/cls/tap/r0.50/main/s1"),
    ]
    records = [Record(f"{run} {job}", {"job": job, "run": run}, True) for job, run in jobs]
    probes = [
        Record(f"results/desk/probes/{task}/layers/probe.json", {"job": "probe"}, True) for task in ("cls", "seg")
    ]
    further = {f"{run} {job}" for job, run in (jobs[2], jobs[5])}
    assert of_further_seeds([*records, *probes]) == further
