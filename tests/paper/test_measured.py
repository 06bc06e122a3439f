import numpy as np
import pytest

from tap.errors import UserError
from tap.paper.estimate import seed_weights
from tap.paper.measured import Measured
from tap.paper.statistics import accuracy, interval, mean_iou, replicates
from tap.paper.tables.caption import floors
from tap.paper.tidy import gather
from tap.runs import Run
from tap.seeds import derive_seed


def measure(project, runs, draws: int = 200) -> Measured:
    return Measured(gather(runs, project.root), 0.5, project.root, draws)


def test_means_and_deviations_over_seeds(project) -> None:
    runs = [project.add_cls("tap", accuracy, seed) for seed, accuracy in enumerate((0.80, 0.82, 0.84))]
    value = measure(project, runs).value("tap", "top1")
    assert value is not None
    assert value.mean == pytest.approx(82.0)
    assert value.sd == pytest.approx(2.0)
    assert value.seeds == (0, 1, 2)
    assert value.runs == tuple(run.id for run in runs)


def test_one_seed_has_no_deviation(project) -> None:
    value = measure(project, [project.add_cls("tap", 0.8)]).value("tap", "top1")
    assert value is not None
    assert value.sd is None


def test_differences_use_common_seeds_only(project) -> None:
    runs = [project.add_cls("dense", 0.90, 0), project.add_cls("dense", 0.80, 1), project.add_cls("tap", 0.79, 1)]
    measured = measure(project, runs)
    change = measured.difference("tap", "top1")
    assert change is not None
    assert change.seeds == (1,)
    assert change.mean == pytest.approx(-1.0)
    assert set(change.runs) == {runs[1].id, runs[2].id}


def test_selectors_name_method_variant_and_rate(project) -> None:
    runs = [project.add_cls("dense", 0.9), project.add_cls("tap", 0.6, rate=0.3)]
    runs.append(project.add(Run("desk", "cls", "tap", 0.5, "no_gumbel"), {"top1": 10.0}))
    measured = measure(project, runs)
    assert measured.selectors("tap") == ["tap:main@0.30", "tap:no_gumbel@0.50"]
    assert [measured.value(name, "top1").mean for name in ("dense", "tap@0.3", "tap:no_gumbel")] == [90.0, 60.0, 10.0]
    assert measured.value("tap", "top1") is None
    assert measured.difference("tap@0.3", "top1", "tap:no_gumbel").mean == pytest.approx(50.0)
    with pytest.raises(UserError, match=r"selector 'tap at 0\.5'"):
        measured.key("tap at 0.5")


def test_other_rates_and_variants_stay_out(project) -> None:
    runs = [project.add_cls("tap", 0.8), project.add_cls("tap", 0.6, rate=0.3)]
    runs.append(project.add(Run("desk", "cls", "tap", 0.5, "no_gumbel"), {"top1": 10.0}))
    value = measure(project, runs).value("tap", "top1")
    assert value is not None
    assert value.runs == (runs[0].id,)


def test_the_interval_is_that_of_the_paired_bootstrap(project, cls_runs) -> None:
    measured = measure(project, cls_runs)
    change = measured.difference("random", "top1")
    loaded = {}
    for method, rate in (("random", "0.50"), ("dense", "1.00")):
        folder = project.root / "results/desk/runs/cls" / method / f"r{rate}/main"
        correct = [np.load(folder / f"s{seed}/per_sample.npz")["correct"] for seed in (0, 1)]
        loaded[method] = [np.stack([item, np.ones(len(item))], axis=1) for item in correct]
    seed = derive_seed("bootstrap", "desk", "cls")
    drawn = [
        replicates(ours, accuracy, seed=seed, draws=200) - replicates(theirs, accuracy, seed=seed, draws=200)
        for ours, theirs in zip(loaded["random"], loaded["dense"], strict=True)
    ]
    expected = interval(-2.0, (seed_weights(2, 200, "cls") * drawn).sum(axis=0))
    assert change is not None
    assert change.interval is not None
    assert (change.interval.low, change.interval.high) == pytest.approx((expected.low, expected.high))
    assert change.mean == pytest.approx(expected.estimate)


def test_segmentation_reads_confusion_matrices(project) -> None:
    generator = np.random.default_rng(0)
    runs, means = [], {}
    for method, rate in (("dense", 1.0), ("tap", 0.5)):
        confusion = generator.integers(1, 9, size=(12, 3, 3))
        means[method] = float(mean_iou(confusion.sum(axis=0).astype(float)))
        arrays = {"confusion": confusion, "sample_id": np.arange(12)}
        runs.append(project.add(Run("desk", "seg", method, rate), {"miou": means[method]}, arrays))
    change = measure(project, runs).difference("tap", "miou")
    assert change is not None
    assert change.interval is not None
    assert change.mean == pytest.approx(means["tap"] - means["dense"])
    assert change.interval.low < change.mean < change.interval.high


def test_without_per_image_values_there_is_no_interval(project) -> None:
    runs = [
        project.add(Run("desk", "cls", method, rate), {"top1": 80.0}) for method, rate in (("dense", 1.0), ("tap", 0.5))
    ]
    measured = measure(project, runs)
    change = measured.difference("tap", "top1")
    assert change is not None
    assert change.interval is None
    assert measured.estimate("tap", "top1").interval is None


def test_other_images_are_refused(project) -> None:
    runs = [project.add_cls("dense", 0.9)]
    arrays = {"correct": np.ones(400, bool), "sample_id": np.arange(1, 401)}
    runs.append(project.add(Run("desk", "cls", "tap", 0.5), {"top1": 100.0}, arrays))
    with pytest.raises(UserError, match=r"per_sample.npz: holds other images than cls/.*same split"):
        measure(project, runs).difference("tap", "top1")


@pytest.mark.parametrize("fault", ["truncated", "text", "unnamed"])
def test_unreadable_images_are_refused_by_name(project, cls_runs, fault: str) -> None:
    path = project.root / cls_runs[0].folder / "per_sample.npz"
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:100])
    elif fault == "text":
        path.write_text("not an archive")
    else:
        np.savez(path, correct=np.ones(400, bool))
    with pytest.raises(UserError, match=r"dense.*per_sample.npz"):
        measure(project, cls_runs).difference("tap", "top1")


def test_what_was_not_measured_is_none(project, cls_runs) -> None:
    measured = measure(project, cls_runs)
    assert measured.value("evit", "top1") is None
    assert measured.difference("evit", "top1") is None
    assert not measured.has("evit")
    assert measured.has("tap")


def test_floors_of_a_dense_task(project) -> None:
    metrics = {"miou": 60.0, "constant_miou": 21.5, "patches": 64, "parameters": 10}
    dense = project.add(Run("desk", "seg", "dense"), metrics)
    floor = project.add(Run("desk", "seg", "dense", variant="random-encoder"), metrics | {"miou": 33.0})
    measured = measure(project, [dense, floor])
    values = {name: value.mean for name, value in measured.floors().items()}
    assert list(values.values()) == [21.5, 33.0]
    assert measured.value("dense", "miou").mean == 60.0
    (sentence,) = floors(measured)
    assert "21.5" in sentence
    assert "33.0" in sentence
    assert list(values) == ["floor_constant", "floor_random_encoder"]
    assert [value.runs for value in measured.floors().values()] == [(dense.id,), (floor.id,)]


def test_no_pruning_below_a_floor_is_said(project) -> None:
    dense = project.add(Run("desk", "seg", "dense"), {"miou": 60.0, "patches": 64, "parameters": 10})
    floor = project.add(Run("desk", "seg", "dense", variant="random-encoder"), {"miou": 63.0, "patches": 64})
    measured = measure(project, [dense, floor])
    assert measured.above_floors("miou") is False
    assert measured.above_floors("top1") is None
    warning = floors(measured)[1]
    assert "60.0" in warning
    assert "not above every floor" in warning


def test_a_point_that_is_not_that_of_its_interval_is_refused(project, cls_runs) -> None:
    frame = gather(cls_runs, project.root)
    frame.loc[(frame["method"] == "tap") & (frame["metric"] == "top1") & (frame["seed"] == 0), "value"] = 88.3
    with pytest.raises(UserError, match=r"cls/tap/r0\.50/main/s0: top1: recorded 88\.3, recomputed 80\.0"):
        Measured(frame, 0.5, project.root).difference("tap", "top1")
    assert Measured(frame, 0.5, project.root, compare=False).difference("tap", "top1") is not None
