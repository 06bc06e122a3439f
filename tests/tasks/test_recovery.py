from types import SimpleNamespace

import pytest

from tap.encoder.recovery import RecoverySettings
from tap.tasks.recovery import choose_endpoint, fixed_scale, recovery_settings, uses_endpoint


def model(better):
    """A checkpoint whose score is highest with one alpha."""
    return SimpleNamespace(encoder=SimpleNamespace(recovery=RecoverySettings("learned", "token")), better=better)


def score(checkpoint):
    assert checkpoint.encoder.recovery.matching == "token"
    return 50.0 - abs(checkpoint.encoder.recovery.scale - checkpoint.better)


def test_the_endpoint_with_the_better_mean_wins():
    choice = choose_endpoint([model(0.2), model(0.1), model(1.0)], score)
    assert choice.endpoint == 0.0
    assert choice.scores == {1.0: pytest.approx(50 - 1.7 / 3), 0.0: pytest.approx(50 - 1.3 / 3)}
    assert choose_endpoint([model(0.9)], score).endpoint == 1.0


def test_equal_scores_keep_the_full_offset():
    assert choose_endpoint([model(0.5)], score).endpoint == 1.0


def test_the_models_own_recovery_comes_back():
    checkpoint = model(0.0)
    choose_endpoint([checkpoint], score)
    assert checkpoint.encoder.recovery.scale == "learned"
    with pytest.raises(ZeroDivisionError), fixed_scale(checkpoint, 0.5):
        1 / (checkpoint.encoder.recovery.scale - 0.5)
    assert checkpoint.encoder.recovery.scale == "learned"


def test_training_starts_from_the_papers_endpoint_of_the_task(seg_spec):
    spec = seg_spec().model_copy(update={"method": "static", "rate": 0.5})
    auto = spec.model_copy(update={"recovery": spec.recovery.model_copy(update={"endpoint": "auto"})})
    assert recovery_settings(auto).scale == 1.0
    assert recovery_settings(auto.model_copy(update={"task": "det"})).scale == 0.0


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
