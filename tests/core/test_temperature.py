import pytest

from tap.core.temperature import cosine_temperature


@pytest.mark.parametrize(
    ("progress", "tau"),
    [(0.0, 1.0), (0.25, 0.8681980515), (0.5, 0.55), (0.75, 0.2318019485), (1.0, 0.1), (-0.5, 1.0), (1.7, 0.1)],
)
def test_the_papers_schedule(progress: float, tau: float) -> None:
    assert cosine_temperature(progress, 1.0, 0.1) == pytest.approx(tau, rel=1e-9)


def test_it_only_falls() -> None:
    taus = [cosine_temperature(step / 50, 1.0, 0.1) for step in range(51)]
    assert taus == sorted(taus, reverse=True)
    assert cosine_temperature(0.3, 0.7, 0.7) == pytest.approx(0.7)
