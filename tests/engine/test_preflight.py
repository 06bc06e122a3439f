"""The look before the first training: everything that is wrong, in one list."""

import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tap import cli
from tap.config import load_scale
from tap.engine import preflight as looking
from tap.engine.preflight import preflight
from tap.jobs.kinds.preflight import JOB as PREFLIGHT
from tap.jobs.kinds.preflight import comes_first
from tap.plan.specs import job_spec
from tap.provenance.files import sha256_file
from tap.reducers.build import build_vit
from tap.runs import Run
from tap.tasks.given_weights import unpinned

ROOT = Path(__file__).resolve().parents[2]
TINY = {"width": 48, "heads": 3, "timm_name": None, "image_size": 224}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project's folder with the settings alone."""
    (tmp_path / "workflow").mkdir()
    shutil.copytree(ROOT / "workflow" / "scales", tmp_path / "workflow" / "scales")
    (tmp_path / "params.yaml").write_text("scale: paper\ntasks: [cls]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def settings(folder):
    """The paper scale's classification with a tiny encoder, its data and its weights in place; and other values."""

    def make(**changes):
        values = {f"tasks.cls.model.{name}": value for name, value in TINY.items()}
        values |= {"tasks.cls.methods": ["dense", "tap"], "variants": []}
        values |= {"device": "cpu", "tasks.cls.data.root": "data", "tasks.cls.pretrain.weights": "mae.pth"}
        values |= {"tasks.cls.pretrain.sha256": None, "tasks.cls.pretrain.size": None}
        return load_scale("paper", values | changes)

    for part in ("train", "val"):
        (folder / "data" / part).mkdir(parents=True)
    torch.manual_seed(0)
    save(folder / "mae.pth", build_vit(make().tasks["cls"].model).state_dict())
    return make


def save(path, tensors):
    torch.save({"model": dict(tensors)}, path)


def texts(report):
    return [problem.text for problem in report.problems]


def test_what_is_right_is_said(settings):
    report = preflight(settings())
    assert texts(report) == []
    assert any("not pinned; put `tasks.cls.pretrain.sha256: " in fact for fact in report.facts)
    assert any("GB needed for" in fact for fact in report.facts)


def test_all_that_is_wrong_stands_in_one_list(settings, folder, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(looking.shutil, "disk_usage", lambda path: usage(free=1000))
    cfg = settings(
        **{
            "device": "cuda",
            "processes": 3,
            "tasks.cls.data.root": "change-me",
            "tasks.cls.pretrain.weights": "none.pth",
            "tasks.cls.method.batch_size": 2_000_001,
        }
    )
    found = "\n".join(texts(preflight(cfg)))
    for text in (
        "tasks.cls.data.root: still is 'change-me'; put your own value there",
        "tasks.cls.data.root: change-me is no folder",
        "weights of cls: none.pth: there is no such file, but tasks.cls.pretrain.weights names it",
        "tasks.cls.dense.batch_size: 1024 cannot be shared evenly by 3 processes",
        "tasks.cls.method.batch_size: 2000001 is more than the 1276167 images that an epoch has",
        "disk: 0.0 GB free in ",
        "device: 'cuda', and this machine has no GPU that may be used",
    ):
        assert text in found, text


@pytest.mark.parametrize(
    ("edit", "changes", "match"),
    [
        (
            lambda t: t | {"head.weight": torch.zeros(2, 2), "fc_norm.bias": torch.zeros(2)},
            {},
            "is no MAE pre-training",
        ),
        (lambda t: t, {"sha256": "0" * 64}, "but 0000"),
        (lambda t: t, {"size": 12}, "has [0-9]+ bytes, and tasks.cls.pretrain.size says 12"),
        (lambda t: t | {"norm.weight": torch.zeros(3)}, {}, "is of another architecture"),
    ],
)
def test_a_file_of_other_weights_is_refused(settings, folder, edit, changes, match):
    tensors = torch.load(folder / "mae.pth")["model"]
    save(folder / "mae.pth", edit(tensors))
    cfg = settings(**{f"tasks.cls.pretrain.{name}": value for name, value in changes.items()})
    (text,) = texts(preflight(cfg))
    assert re.search(match, text), text


def test_a_training_from_a_file_that_is_not_pinned_says_its_hash_and_where_to_put_it(settings, folder):
    spec = job_spec(settings(), Run("paper", "cls", "dense"))
    found = sha256_file(folder / "mae.pth")
    assert unpinned(spec) == (
        f"mae.pth is not pinned; put `tasks.cls.pretrain.sha256: {found}` into params.yaml (overrides: paper:), "
        "so that no other file is taken"
    )
    pinned = settings(**{"tasks.cls.pretrain.sha256": found})
    assert unpinned(job_spec(pinned, Run("paper", "cls", "dense"))) is None
    assert unpinned(job_spec(load_scale("desk"), Run("desk", "cls", "dense"))) is None


def test_the_public_file_is_pinned_and_another_one_refused(settings, folder):
    public = load_scale("paper").tasks["cls"].pretrain
    cfg = settings(**{"tasks.cls.pretrain.sha256": public.sha256, "tasks.cls.pretrain.size": public.size})
    (text,) = texts(preflight(cfg))
    assert f"has {(folder / 'mae.pth').stat().st_size} bytes, and tasks.cls.pretrain.size says 343249461" in text
    (text,) = texts(preflight(settings(**{"tasks.cls.pretrain.sha256": public.sha256})))
    assert f"its sha256 is {sha256_file(folder / 'mae.pth')}, but aec5f0b68e5f3193" in text


def test_a_file_with_mae_s_decoder_is_told_apart(settings, folder):
    tensors = torch.load(folder / "mae.pth")["model"]
    save(folder / "mae.pth", tensors | {"decoder_embed.weight": torch.zeros(2, 2), "mask_token": torch.zeros(1)})
    report = preflight(settings())
    assert texts(report) == []
    assert "weights of cls: 2 tensors are those of MAE's decoder, which is left out" in report.facts


def test_cards_are_counted_and_their_memory_compared(settings, monkeypatch):
    monkeypatch.setattr(looking, "visible_cards", lambda: ["a", "b"])
    monkeypatch.setattr(looking, "gpu_facts", lambda *fields: ["A card", "1024 MiB"])
    whole = {f"tasks.cls.{part}.micro_batch": None for part in ("dense", "method")}
    found = texts(preflight(settings(device="cuda", processes=4, **whole)))
    assert "processes: a training takes 4 GPUs, and 2 may be used here" in found
    too_large = [text for text in found if text.startswith("GPU memory: cls/dense needs ")]
    assert too_large
    assert "a card has 1 GB; set micro_batch to auto" in too_large[0]
    assert texts(preflight(settings(device="cuda", processes=2))) == []  # as many images at once as the card holds


def test_trainings_wait_for_it_where_data_or_weights_are_a_person_s_own(settings):
    assert comes_first(settings())
    assert not comes_first(load_scale("desk"))
    assert not comes_first(load_scale("smoke", {"device": "cuda"}))


def test_an_edit_of_any_setting_has_everything_looked_at_again(settings):
    """The settings are a hash in the command, whose text would else hide the list of what is wrong."""
    found = [
        PREFLIGHT.settings(settings(**changes), None)["settings"]
        for changes in ({}, {"tasks.cls.data.root": "a folder"}, {"tasks.cls.data.root": "a folder", "processes": 2})
    ]
    assert len(set(found)) == 3
    assert {len(text) for text in found} == {64}


def test_the_command_fails_with_the_list_and_leaves_nothing(folder):
    broken = CliRunner().invoke(cli.app, ["preflight", "--scale", "paper"])
    assert broken.exit_code != 0
    assert broken.output.count("WRONG: ") == 3  # data, weights, GPU
    assert not list(folder.glob("results/paper/*.json"))
