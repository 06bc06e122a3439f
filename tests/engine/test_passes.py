"""Passes over images that were killed or asked to end go on with the next batch, to the same bits."""

import os
import signal
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy_task import ToyTask, toy_collate, toy_spec

from tap.engine import passes as module
from tap.engine.passes import Passes, kept_passes
from tap.engine.stopping import Stopped

SPEC = toy_spec()
DATA = ToyTask().datasets(SPEC).validation


class InBatches:
    """Batches of four of the nine images."""

    def loader(self, dataset, spec):
        return torch.utils.data.DataLoader(dataset, spec.eval.batch_size, collate_fn=toy_collate)


FOURS = SimpleNamespace(eval=SimpleNamespace(batch_size=4))


def looked(batch):
    return {"ids": batch.sample_ids.numpy(), "sums": batch.images.double().sum((1, 2, 3)).numpy()}


def over(passes, name, work=looked):
    return passes.over(name, InBatches(), FOURS, DATA, work)


@pytest.fixture
def kept(tmp_path):
    def start(**changes):
        settings = {"settings": {"a": 1}, "code": "abc", "device": "a processor", **changes}
        return kept_passes(tmp_path / "states", "probe", inputs=(), spec=SPEC, **settings)

    return start


@pytest.fixture
def whole():
    return {name: over(Passes(), name) for name in ("first", "second")}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
        assert found[name].dtype == values.dtype


def test_a_pass_looks_at_every_image_in_order(whole):
    assert whole["first"]["ids"].tolist() == list(range(9))


@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_a_killed_pass_goes_on_at_the_next_batch(kept, whole, monkeypatch, capsys, dies_at):
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)
    seen = []

    def dies(batch):
        if len(seen) == dies_at - 1:
            raise KeyboardInterrupt
        seen.append(batch)
        return looked(batch)

    with suppress(KeyboardInterrupt), kept() as passes:
        over(passes, "first")
        over(passes, "second", dies)
    again = []
    with kept() as passes:
        same(over(passes, "first", again.append), whole["first"])
        assert again == []
        same(over(passes, "second", lambda batch: again.append(batch) or looked(batch)), whole["second"])
    assert len(again) == 3 - len(seen)
    assert f"probe: goes on after {3 + len(seen)} batches" in capsys.readouterr().err


def test_who_is_asked_to_end_keeps_what_was_found(kept, whole):
    def asked(batch):
        os.kill(os.getpid(), signal.SIGTERM)
        return looked(batch)

    with pytest.raises(Stopped, match=r"probe: asked to end \(SIGTERM\) after 1 batches"), kept() as passes:
        over(passes, "first", asked)
    again = []
    with kept() as passes:
        same(over(passes, "first", lambda batch: again.append(batch) or looked(batch)), whole["first"])
    assert len(again) == 2


@pytest.mark.parametrize("change", [{"code": "def"}, {"settings": {"a": 2}}, {"device": "another processor"}])
def test_findings_of_other_settings_code_or_devices_are_named_and_not_used(kept, monkeypatch, capsys, change):
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)
    with suppress(ZeroDivisionError), kept() as passes:
        over(passes, "first")
        raise ZeroDivisionError
    again = []
    with kept(**change) as passes:
        over(passes, "first", lambda batch: again.append(batch) or looked(batch))
    assert len(again) == 3
    assert "not used" in capsys.readouterr().err


def test_nothing_is_left_when_the_job_is_through(kept, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)
    with kept() as passes:
        over(passes, "first")
        assert "probe: first: 8 of 9 images; kept\nprobe: first: 9 of 9 images; kept" in capsys.readouterr().err
        assert list((tmp_path / "states").glob("*.state"))
    assert not list((tmp_path / "states").glob("*.state"))


def test_nothing_is_written_before_its_time(kept, tmp_path):
    with kept() as passes:
        over(passes, "first")
        assert not list((tmp_path / "states").glob("*.state"))
