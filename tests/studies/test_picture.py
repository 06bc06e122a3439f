import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.plan.specs import job_spec
from tap.runs import Run
from tap.studies.picture import run_picture


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Run("smoke", "cls", "tap", 0.5), "picture: task 'cls' has none; name a run of seg or det"),
        (Run("smoke", "seg", "tap", 0.5), "run seg/tap/r0.50/main/s0 is not trained yet; train it first"),
    ],
)
def test_what_cannot_be_drawn_is_said(run, message, tmp_path, monkeypatch):
    spec = job_spec(load_scale("smoke"), run)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        run_picture(spec)
