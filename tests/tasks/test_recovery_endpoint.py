from types import SimpleNamespace

import pytest

from tap.encoder.recovery_buffer import RecoverySettings
from tap.errors import UserError
from tap.plan.endpoints import endpoint_path, uses_endpoint
from tap.task_facts import SEG
from tap.tasks.recovery_endpoint import choose_endpoint, recovery_settings

SCORE = SEG.score


def model(better):
    """A checkpoint whose score is highest with one alpha."""
    return SimpleNamespace(encoder=SimpleNamespace(recovery=RecoverySettings("learned", "token")), better=better)


def score(checkpoint):
    assert checkpoint.encoder.recovery.matching == "token"
    return 50.0 - abs(checkpoint.encoder.recovery.scale - checkpoint.better)


def test_the_endpoint_with_the_better_mean_wins():
    choice = choose_endpoint([model(0.2), model(0.1), model(1.0)], score, SCORE)
    assert choice.endpoint == 0.0
    assert choice.scores == {1.0: pytest.approx(50 - 1.7 / 3), 0.0: pytest.approx(50 - 1.3 / 3)}
    assert choose_endpoint([model(0.9)], score, SCORE).endpoint == 1.0


def test_equal_scores_keep_the_full_offset():
    assert choose_endpoint([model(0.5)], score, SCORE).endpoint == 1.0


def test_the_models_own_recovery_comes_back():
    checkpoint = model(0.0)
    choose_endpoint([checkpoint], score, SCORE)
    assert checkpoint.encoder.recovery.scale == "learned"


def test_the_models_own_recovery_comes_back_after_a_failure():
    checkpoint = model(0.0)
    with pytest.raises(ZeroDivisionError):
        choose_endpoint([checkpoint], lambda _model: 1 / 0, SCORE)
    assert checkpoint.encoder.recovery.scale == "learned"


@pytest.fixture
def auto(seg_spec, tmp_path, monkeypatch):
    """Settings of a method whose endpoint is to be chosen, and the file with the choice."""
    spec = seg_spec()
    recovery = spec.recovery.model_copy(update={"endpoint": "auto"})
    monkeypatch.chdir(tmp_path)
    path = endpoint_path(spec.scale, "seg")
    path.parent.mkdir(parents=True)
    return spec.model_copy(update={"method": "static", "rate": 0.5, "recovery": recovery}), path


def test_the_chosen_endpoint_is_read_from_its_file(auto):
    spec, path = auto
    path.write_text('{"endpoint": 0.0}')
    assert recovery_settings(spec).scale == 0.0
    assert recovery_settings(spec.model_copy(update={"method": "tap"})).scale == "learned"
    assert recovery_settings(spec.model_copy(update={"method": "dense", "rate": 1.0})).scale == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "endpoint_seg.json: the endpoint is not chosen yet; run `tap endpoint seg`"),
        ("{", "endpoint_seg.json: holds no endpoint"),
        ("{}", "endpoint_seg.json: holds no endpoint"),
        ('{"endpoint": 0.3}', "its endpoint is 0.3, neither 0 nor 1"),
    ],
)
def test_an_endpoint_that_cannot_be_read_is_named(auto, content, message):
    spec, path = auto
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        recovery_settings(spec)


@pytest.mark.parametrize(
    ("method", "rate", "zero_fill", "expected"),
    [
        ("static", 0.5, False, True),
        ("static", 1.0, False, False),
        ("static", 0.5, True, False),
        ("tap", 0.5, False, False),
        ("dense", 1.0, False, False),
    ],
)
def test_where_an_endpoint_decides_something(seg_spec, method, rate, zero_fill, expected):
    spec = seg_spec()
    recovery = spec.recovery.model_copy(update={"zero_fill": zero_fill})
    assert uses_endpoint(spec.model_copy(update={"method": method, "rate": rate, "recovery": recovery})) == expected
