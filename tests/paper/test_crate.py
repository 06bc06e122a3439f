import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from crate_validator import faults_of_crate
from rocrate.rocrate import ROCrate

from tap.config import load_scale
from tap.errors import UserError
from tap.paper.crate import write_crate
from tap.provenance.finding import Kind
from tap.provenance.ledger import read_ledger
from tap.provenance.record import Stamp, record_job
from tap.provenance.root_hash import root_hash

ROOT = Path(__file__).parents[2]


def old(content) -> str:
    return "of another day"


RUN = "results/desk/runs/cls/tap/r0.50/main/s0"


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A small project with one table, one run and their records."""
    scales = [f"workflow/scales/{scale}.yaml" for scale in ("desk", "paper")]
    for name in ("CITATION.cff", "LICENSE", "workflow/Snakefile", *scales):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / name).read_text())
    (tmp_path / "params.yaml").write_text("scale: desk\n")
    (tmp_path / "tap" / "__pycache__").mkdir(parents=True)
    (tmp_path / "tap" / "code.py").write_text("x = 1\n")
    (tmp_path / "tap" / "__pycache__" / "code.pyc").write_text("")
    tables, run = tmp_path / "results/desk/tables", tmp_path / RUN
    for folder in (tables, run, tmp_path / "data" / "toy"):
        folder.mkdir(parents=True)
    (tables / "tab_cls.csv").write_text("row\n")
    (tmp_path / "data" / "toy" / "README.md").write_text("# Toy\n")
    (run / "metrics.json").write_text('{"top1": 50.0}')
    (run / "model.safetensors").write_bytes(b"weights")
    for path, job, inputs, outputs in (
        (run / "run.json", "train", [], [run / "model.safetensors"]),
        (run / "evaluation.json", "evaluate", [run / "model.safetensors"], [run / "metrics.json"]),
        (tables / "tab_cls.record.json", "table", [run / "metrics.json"], [tables / "tab_cls.csv"]),
    ):
        record_job(
            path,
            Stamp(job, "f"),
            inputs=inputs,
            outputs=outputs,
            started=datetime(2026, 1, 1, tzinfo=UTC),
            device="a machine",
            facts={"run": "desk/cls/tap/r0.50/main/s0", "ended": "2026-01-01T00:01:00+00:00"},
            root=tmp_path,
        )
    return tmp_path


def pack(finished: Path, out: Path, **options) -> Path:
    """The crate; what today's code would make is of no concern here."""
    return write_crate("desk", old, out, finished, allowed=[Kind.STALE], **options)


def graph(folder: Path) -> dict[str, dict]:
    return {item["@id"]: item for item in json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]}


def test_a_crate_holds_workflow_results_and_provenance(finished: Path, tmp_path: Path) -> None:
    out = pack(finished, tmp_path / "crate")
    entities = graph(out)
    run = RUN
    action = entities[f"#{run}/evaluation.json"]
    assert action["@type"] == "CreateAction"
    assert action["instrument"] == {"@id": "workflow/Snakefile"}
    assert action["object"] == [{"@id": f"#{run}/model.safetensors"}, {"@id": f"{run}/run.json"}]
    assert action["result"] == [{"@id": f"{run}/metrics.json"}]
    assert entities[f"#{run}/model.safetensors"]["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert entities["#root-hash"]["value"] == root_hash(read_ledger(load_scale("desk", root=finished), finished))
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
    out = pack(finished, tmp_path / "crate")
    parts = [item["@id"] for item in graph(out)["./"]["hasPart"]]
    assert parts
    assert all((out / part).exists() for part in parts)
    assert ROCrate(out).mainEntity.id == "workflow/Snakefile"


def test_weights_on_request(finished: Path, tmp_path: Path) -> None:
    out = pack(finished, tmp_path / "crate", weights=True)
    name = f"{RUN}/model.safetensors"
    assert (out / name).read_bytes() == b"weights"
    assert f"#{name}" not in graph(out)


def test_the_same_results_give_the_same_crate(finished: Path, tmp_path: Path) -> None:
    first, second = (pack(finished, tmp_path / name) for name in ("one", "two"))
    texts = [(out / "ro-crate-metadata.json").read_text() for out in (first, second)]
    assert texts[0] == texts[1]


def test_an_older_crate_is_replaced_and_nothing_else(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "crate"
    pack(finished, out)
    (out / "old").write_text("")
    pack(finished, out)
    assert not (out / "old").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("")
    with pytest.raises(UserError, match="holds something else than a crate"):
        pack(finished, other)
    assert (other / "mine.txt").exists()
    assert not list(tmp_path.glob(".crate.*"))


def test_a_scale_without_tables_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no table yet; `make reproduce SCALE=paper`"):
        write_crate("paper", old, tmp_path / "crate", finished)


def test_a_crate_is_what_the_specification_asks_for(finished: Path, tmp_path: Path) -> None:
    for weights in (False, True):
        faults = faults_of_crate(pack(finished, tmp_path / "crate", weights=weights))
        assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda items: items.pop("./"), "no root data entity"),
        (lambda items: items["./"].pop("license"), "./: lacks license"),
        (lambda items: items["ro-crate-metadata.json"].pop("conformsTo"), "conforms to no version"),
        (lambda items: items["./"]["hasPart"].append({"@id": "gone.csv"}), "./: hasPart names gone.csv"),
        (lambda items: items[f"{RUN}/metrics.json"].update(sha256="0" * 64), "metrics.json: another hash"),
        (lambda items: items[f"{RUN}/metrics.json"].update(contentSize="1"), "metrics.json: another size"),
        (lambda items: items["./"].update(author={"name": "nested"}), "./: author is nested"),
    ],
)
def test_a_crate_that_is_not_would_be_seen(finished: Path, tmp_path: Path, change, fault: str) -> None:
    out = pack(finished, tmp_path / "crate")
    items = graph(out)
    change(items)
    text = json.loads((out / "ro-crate-metadata.json").read_text())
    (out / "ro-crate-metadata.json").write_text(json.dumps(text | {"@graph": list(items.values())}))
    assert any(fault in line for line in faults_of_crate(out)), faults_of_crate(out)


@pytest.mark.parametrize("name", [f"{RUN}/metrics.json", "results/desk/tables/tab_cls.csv", f"{RUN}/evaluation.json"])
def test_edited_results_are_refused_and_nothing_is_written(finished: Path, tmp_path: Path, name: str) -> None:
    path = finished / name
    path.write_text(path.read_text().replace("50.0", "90.0").replace("row", "raw").replace("a machine", "another"))
    with pytest.raises(UserError, match=f"^{name}: edited"):
        write_crate("desk", old, tmp_path / "crate", finished, allowed=list(Kind))
    assert not (tmp_path / "crate").exists()


def test_what_no_job_made_and_what_is_missing_or_stale_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="stale"):
        write_crate("desk", old, tmp_path / "crate", finished)
    (finished / RUN / "model.safetensors").unlink()
    pack(finished, tmp_path / "crate")
    with pytest.raises(UserError, match=r"model\.safetensors: missing"):
        pack(finished, tmp_path / "crate", weights=True)
    (finished / "results/desk/notes.txt").write_text("")
    with pytest.raises(UserError, match=r"notes\.txt: unknown"):
        pack(finished, tmp_path / "crate")
