import json
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from tap.errors import UserError
from tap.paper.crate import write_crate

ROOT = Path(__file__).parents[2]
SHA = "a" * 64


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A small project with one table, one run and its record."""
    for name in ("CITATION.cff", "LICENSE", "params.yaml", "workflow/Snakefile"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((ROOT / name).read_text())
    (tmp_path / "tap" / "__pycache__").mkdir(parents=True)
    (tmp_path / "tap" / "code.py").write_text("x = 1\n")
    (tmp_path / "tap" / "__pycache__" / "code.pyc").write_text("")
    tables, run = tmp_path / "results/desk/tables", tmp_path / "results/desk/runs/cls/tap/r0.50/main/s0"
    for folder in (tables, run, tmp_path / "data" / "toy"):
        folder.mkdir(parents=True)
    (tables / "tab_cls.csv").write_text("row\n")
    (tmp_path / "data" / "toy" / "README.md").write_text("# Toy\n")
    (run / "metrics.json").write_text('{"top1": 50.0}')
    (run / "model.safetensors").write_bytes(b"weights")
    folder = run.relative_to(tmp_path).as_posix()
    record = {
        "job": "evaluate",
        "run": "desk/cls/tap/r0.50/main/s0",
        "fingerprint": "f" * 64,
        "device": "a machine",
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T00:01:00+00:00",
        "inputs": {f"{folder}/model.safetensors": {"sha256": SHA, "bytes": 7}},
        "outputs": {f"{folder}/metrics.json": {"sha256": SHA, "bytes": 14}},
    }
    (run / "evaluation.json").write_text(json.dumps(record))
    return tmp_path


def graph(folder: Path) -> dict[str, dict]:
    return {item["@id"]: item for item in json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]}


def test_a_crate_holds_workflow_results_and_provenance(finished: Path, tmp_path: Path) -> None:
    out = write_crate("desk", tmp_path / "crate", finished)
    entities = graph(out)
    run = "results/desk/runs/cls/tap/r0.50/main/s0"
    action = entities[f"#{run}/evaluation.json"]
    assert action["@type"] == "CreateAction"
    assert action["instrument"] == {"@id": "workflow/Snakefile"}
    assert action["object"] == [{"@id": f"#{run}/model.safetensors"}]
    assert action["result"] == [{"@id": f"{run}/metrics.json"}]
    assert entities[f"#{run}/model.safetensors"]["sha256"] == SHA
    assert entities[f"{run}/metrics.json"]["sha256"] == SHA
    root = entities["./"]
    assert root["mainEntity"] == {"@id": "workflow/Snakefile"}
    assert "ComputationalWorkflow" in entities["workflow/Snakefile"]["@type"]
    assert root["license"] == {"@id": "https://spdx.org/licenses/Apache-2.0"}
    assert root["author"] == [{"@id": "#the-maintainers-of-this-repository"}]
    assert len(entities["#paper"]["author"]) == 4
    assert root["datePublished"] == "2026-01-01T00:01:00+00:00"
    assert (out / "data/toy/README.md").is_file()
    assert (out / "tap/code.py").is_file()
    assert not list(out.rglob("__pycache__"))
    assert not list(out.rglob("*.safetensors"))


def test_every_data_entity_is_a_file_of_the_crate_and_it_reads_back(finished: Path, tmp_path: Path) -> None:
    out = write_crate("desk", tmp_path / "crate", finished)
    parts = [item["@id"] for item in graph(out)["./"]["hasPart"]]
    assert parts
    assert all((out / part).exists() for part in parts)
    assert ROCrate(out).mainEntity.id == "workflow/Snakefile"


def test_weights_on_request(finished: Path, tmp_path: Path) -> None:
    out = write_crate("desk", tmp_path / "crate", finished, weights=True)
    name = "results/desk/runs/cls/tap/r0.50/main/s0/model.safetensors"
    assert (out / name).read_bytes() == b"weights"
    assert f"#{name}" not in graph(out)


def test_the_same_results_give_the_same_crate(finished: Path, tmp_path: Path) -> None:
    first, second = (write_crate("desk", tmp_path / name, finished) for name in ("one", "two"))
    texts = [(out / "ro-crate-metadata.json").read_text() for out in (first, second)]
    assert texts[0] == texts[1]


def test_an_older_crate_is_replaced_and_nothing_else(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "crate"
    write_crate("desk", out, finished)
    (out / "old").write_text("")
    write_crate("desk", out, finished)
    assert not (out / "old").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("")
    with pytest.raises(UserError, match="holds something else than a crate"):
        write_crate("desk", other, finished)
    assert (other / "mine.txt").exists()
    assert not list(tmp_path.glob(".crate.*"))


def test_a_scale_without_tables_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no table yet; `make reproduce SCALE=paper`"):
        write_crate("paper", tmp_path / "crate", finished)
