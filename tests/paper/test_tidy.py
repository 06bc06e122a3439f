from pathlib import Path

import pandas as pd
import pytest

from tap.errors import UserError
from tap.paper.tidy import SCHEMA, gather, read_tidy, write_tidy
from tap.plan.results import tidy_path
from tap.runs import Run

RUN = Run("desk", "cls", "tap", 0.5)


def test_one_row_per_run_and_metric(project, cls_runs) -> None:
    frame = gather(cls_runs, project.root)
    assert list(frame.columns) == list(SCHEMA.columns)
    assert not frame.duplicated(["run", "metric"]).any()
    assert set(frame["run"]) == {run.id for run in cls_runs}
    row = frame[(frame["run"] == "cls/tap/r0.50/main/s1") & (frame["metric"] == "patches")].iloc[0]
    assert (row["method"], row["rate"], row["seed"], row["value"], row["unit"]) == ("tap", 0.5, 1, 64, "patches")
    assert row["device"] == "CPU, 2 threads & more_"
    assert (row["dataset"], row["budget"], row["start"]) == ("fashion_mnist", "4 epochs, batch 128", "dense")
    assert (project.root / row["per_sample"]).is_file()
    assert row["fingerprint"] == "f" * 8


def test_a_run_that_is_not_there_is_absent(project, cls_runs) -> None:
    frame = gather([*cls_runs, Run("desk", "cls", "evit", 0.5)], project.root)
    assert "evit" not in set(frame["method"])
    assert len(gather([Run("desk", "cls", "evit", 0.5)], project.root)) == 0


def test_only_the_runs_asked_for_are_read(project, cls_runs) -> None:
    assert set(gather(cls_runs[:1], project.root)["run"]) == {cls_runs[0].id}


def test_csv_gives_the_same_table_back(project, cls_runs, tmp_path: Path) -> None:
    bare = project.add(Run("desk", "cls", "evit", 0.5), {"top1": 80.1})
    frame = gather([*cls_runs, bare], project.root)
    path = tmp_path / "tidy.csv"
    path.write_text(frame.to_csv(index=False))
    pd.testing.assert_frame_equal(read_tidy(path), frame)


def test_facts_and_null_are_no_metrics(project) -> None:
    project.add(RUN, {"top1": 80, "kernel": "math", "peak_gb": None, "complete": True, "batch_size": 8})
    assert gather([RUN], project.root)["metric"].tolist() == ["top1"]


def test_a_pretraining_run_has_no_score(project) -> None:
    run = project.add(Run("desk", "cls", "mae"), {"loss": 0.4})
    assert gather([run], project.root)["metric"].tolist() == ["loss"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"top1": float("nan")}, "'top1' is nan"),
        ({"top1": 80.0, "patches": float("inf")}, "'patches' is inf"),
        ({"top1": 180.0}, "no percentage"),
        ({"top1": -1}, "no percentage"),
        ({"loss": 1.0}, "no 'top1'"),
        ({"top1": "high"}, "no 'top1'"),
        ({"top1": 80.0, "per_class": [1, 2]}, "'per_class' is no single value"),
    ],
)
def test_malformed_metrics_are_refused_by_name(project, metrics: dict, message: str) -> None:
    project.add(RUN, metrics)
    with pytest.raises(UserError, match=rf"cls/tap/r0.50/main/s0/metrics.json: .*{message}"):
        gather([RUN], project.root)


@pytest.mark.parametrize("content", [b'{"top1": 80', b"[80]", b"\xff\xfe", b""])
@pytest.mark.parametrize("name", ["metrics.json", "run.json"])
def test_broken_files_are_refused_by_name(project, content: bytes, name: str) -> None:
    project.add(RUN, {"top1": 80.0})
    (project.root / RUN.folder / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"s0/{name}"):
        gather([RUN], project.root)


def test_metrics_without_a_record_are_refused(project) -> None:
    project.add(RUN, {"top1": 80.0})
    (project.root / RUN.folder / "run.json").unlink()
    with pytest.raises(UserError, match=r"run.json"):
        gather([RUN], project.root)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("value", "180.0", "top1 = 180.0"),
        ("task", "text", "isin"),
        ("seed", "one", "not a tidy table"),
        ("metric", "top1", "unique|uplicate"),
    ],
)
def test_an_edited_table_is_refused(project, cls_runs, tmp_path: Path, column: str, value: str, message: str) -> None:
    frame = gather(cls_runs, project.root).astype(object)
    frame.loc[frame["metric"].isin(["top1", "patches"]), column] = value
    path = tmp_path / "tidy.csv"
    path.write_text(frame.to_csv(index=False))
    with pytest.raises(UserError, match=rf"(?s)tidy.csv.*({message})"):
        read_tidy(path)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    for content in ("", "a,b\n1,2\n"):
        (tmp_path / "tidy.csv").write_text(content)
        with pytest.raises(UserError, match=r"tidy.csv"):
            read_tidy(tmp_path / "tidy.csv")
    with pytest.raises(UserError, match=r"none.csv"):
        read_tidy(tmp_path / "none.csv")


def test_path_is_within_the_scale() -> None:
    assert tidy_path("smoke", "seg") == Path("results/smoke/tidy_seg.csv")


def test_a_score_that_its_per_image_values_do_not_give_is_refused(project) -> None:
    run = project.add_cls("tap", 0.8, top1=88.3)
    file = run.folder / "metrics.json"
    with pytest.raises(UserError, match=rf"^{file}: top1: recorded 88\.3, recomputed 80\.0 from per_sample\.npz"):
        gather([run], project.root)
    frame = gather([run], project.root, compare=False)
    assert frame.set_index("metric")["value"]["top1"] == 88.3


def test_without_a_measured_run_nothing_is_written(settings):
    path = settings / tidy_path("desk", "cls")
    with pytest.raises(UserError, match=r"results/desk/runs: no run of cls is measured there.*--config scale=desk"):
        write_tidy("desk", "cls", path, settings)
    assert not path.exists()
