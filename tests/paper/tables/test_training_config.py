"""The table of settings says what single methods have in the place of the values of all."""

from types import SimpleNamespace
from typing import Any

from tap.config import load_scale
from tap.config.scale import ScaleConfig
from tap.config.schema import ChosenConfig
from tap.paper.tables.tab_training_config import cells
from tap.paper.tables.table import stated

OWN = "values of single methods"
CFG = load_scale("desk")


def cells_of(**chosen: Any) -> Any:
    values = {name: ChosenConfig.model_validate(each) for name, each in chosen.items()}
    settings = CFG.tasks["seg"].model_copy(update={"chosen": values})
    cfg: ScaleConfig = CFG.model_copy(update={"tasks": {"seg": settings}})
    return cells(SimpleNamespace(settings=cfg))  # type: ignore[arg-type]


def test_what_is_chosen_for_a_method_is_told_and_nothing_where_nothing_is() -> None:
    tap = {"controller": {"register_start": "class_token"}, "optimizer": {"controller_lr_scale": 30}}
    found = cells_of(tap=tap, random={"optimizer": {"lr": 1e-4}})
    text = "TAP-J (ours): register start class token, controller lr scale 30; Random: lr 0.0001"
    assert found[OWN, "seg"] == stated(text)
    assert (OWN, "seg") not in cells_of()


def test_a_method_that_the_task_does_not_list_is_not_told_of() -> None:
    assert (OWN, "seg") not in cells_of(evit={"optimizer": {"lr": 1e-4}})
