import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tap.config.generate import SCHEMAS_FOLDER, _section, generate, generated_files
from tap.config.scale import Params
from tap.config.strict import Strict


def below(model: type[Strict]) -> set[type[Strict]]:
    """A model, and all that are made of it."""
    return {model}.union(*map(below, model.__subclasses__()))


MODELS = {model for model in below(Strict) if model.__module__.startswith("tap.config.")}  # not those of other tests


@pytest.mark.parametrize("path", sorted(generated_files()), ids=str)
def test_the_generated_files_are_those_of_the_models(path):
    assert path.read_text() == generated_files()[path], "run `tap config generate`"


def test_nothing_else_lies_among_the_generated_files():
    assert {SCHEMAS_FOLDER / path.name for path in SCHEMAS_FOLDER.iterdir()} == set(generated_files())


def test_the_default_page_is_a_params_file_with_the_defaults():
    page = yaml.safe_load(generated_files()[SCHEMAS_FOLDER / "params.default.yaml"])
    assert Params.model_validate(page) == Params()


def test_the_default_page_names_every_setting_of_a_scale_once():
    page = generated_files()[SCHEMAS_FOLDER / "params.default.yaml"]
    names = re.findall(r"^# ([a-z_.<>0-9]+) {2,}\S", page, flags=re.MULTILINE)
    assert len(names) == len(set(names))
    assert {"main_rate", "controller.tau_end", "tasks.<task>.seeds"} <= set(names)
    assert "tasks.<task>.pretrain.train.optimizer.layer_decay" in names
    assert "tasks.<task>.dense.*" in page
    lines = {line.split()[1]: line for line in page.splitlines() if line.startswith("# tasks")}
    assert "number (> 0, <= 1); default 1.0" in lines["tasks.<task>.pretrain.train.optimizer.layer_decay"]
    assert "whole number (>= 1) | null" in lines["tasks.<task>.data.limit_val"]
    assert "pretrained | dense; required" in lines["tasks.<task>.start_from"]


@pytest.mark.parametrize("model", sorted(MODELS, key=lambda model: model.__name__), ids=lambda model: model.__name__)
def test_every_setting_has_a_meaning_and_null_only_as_default(model):
    for name, field in model.model_fields.items():
        section = _section(field.annotation) is not None
        assert field.description or section or model.__name__ == "JobSpec", name
        if type(None) in get_args(field.annotation):
            assert field.default is None, f"{name}: a null that is not the default would be lost in job_json"


def test_the_schemas_forbid_unknown_keys():
    tree = json.loads(generated_files()[SCHEMAS_FOLDER / "scale.schema.json"])
    assert all(part["additionalProperties"] is False for part in tree["$defs"].values() if part["type"] == "object")


def test_generate_writes_what_it_says(tmp_path):
    written = generate(tmp_path)
    assert {path: (tmp_path / path).read_text() for path in written} == generated_files()
    assert all(isinstance(path, Path) for path in written)
