"""Forgeries whose hashes agree from end to end: each is found by its value, and an honest project by none."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from forger import replaced

from tap.config import load_scale
from tap.jobs.staleness import Today
from tap.paper.deep.reevaluation import Sample
from tap.paper.deep.verdicts import check_verdicts
from tap.paper.deep.verification import verify_deeply
from tap.provenance.record import sealed
from tap.provenance.verify import verify
from tap.runs import Run

TAP = Run("smoke", "seg", "tap", 0.5).folder
TABLE, AUDIT = Path("results/smoke/tables/tab_seg"), Path("results/smoke/audit")


def verified(cfg):
    return verify(cfg, Today(cfg).staleness)


def hashes_agree():
    weights = {"model.safetensors"}
    return {Path(item.path).name for item in verified(load_scale("smoke")).findings} <= weights


def test_any_record_sealed_anew_shows_on_the_page_of_the_audit(forger):
    """The audit of the forger's own project is made last, so its page has to be made anew as well."""
    replaced("results/smoke/headline.csv", r"43\.0", "53.0")
    forger.reseal()
    cfg = load_scale("smoke")
    (line,) = check_verdicts("smoke", verified(cfg).ledger, (), ()).lines
    assert line.startswith("results/smoke/audit/audit.json: root_hash: recorded ")


def test_an_honest_project_is_what_it_says(forger, deep):
    forger.reseal()
    assert hashes_agree()
    assert deep() == []


def test_everything_is_looked_at(finished):
    cfg = load_scale("smoke")
    for path in Path("results").rglob("*.safetensors"):
        path.unlink()
    outcome = verify_deeply(cfg, verified(cfg), Sample(0))
    assert outcome.compared == {
        "runs' scores": 4,
        "rows of tidy tables": 36,
        "headline files": 2,
        "files of tables and figures": 4,
        "published copies": 4,
        "verdicts": 39,
        "files of the audit": 3,
    }
    assert [note for note in outcome.notes if "weights are not there" in note] == [
        "not evaluated anew, since their weights are not there: seg/dense/r1.00/main/s0, "
        "seg/dense/r1.00/random-encoder/s0, seg/random/r0.50/main/s0 and 1 more"
    ]


def test_a_score_with_everything_after_it_made_anew(forger):
    replaced(TAP / "metrics.json", r'"miou": 43.0', '"miou": 88.3')
    forger.remake()
    assert "88.3" in TABLE.with_suffix(".tex").read_text()
    assert verified(load_scale("smoke")).findings == ()
    cfg = load_scale("smoke")
    for path in Path("results").rglob("*.safetensors"):
        path.unlink()
    lines = verify_deeply(cfg, verified(cfg), Sample(0)).lines
    assert f"{TAP}/metrics.json: miou: recorded 88.3, recomputed 43.0" in lines
    assert any("recorded 88.3, recomputed 43.0 from" in line for line in lines[1:]), "no table can be made of it"


def test_an_interval(forger, deep):
    header, *lines = TABLE.with_suffix(".csv").read_text().splitlines()
    column = header.split(",").index("low")
    row = next(at for at, line in enumerate(lines) if line.split(",")[column])
    cells = lines[row].split(",")
    honest, cells[column] = cells[column], "-0.01"
    lines[row] = ",".join(cells)
    for path in (TABLE.with_suffix(".csv"), Path("paper_tables/tab_seg.csv")):
        path.write_text("\n".join([header, *lines]) + "\n")
    forger.reseal()
    assert hashes_agree()
    line = deep()[0]
    assert re.match(rf"{TABLE}\.csv: line {row + 2} .*, low: recorded -0\.01, recomputed {honest}$", line)


def test_a_cell_of_a_table_and_of_its_copy(forger, deep):
    for path in (f"{TABLE}.tex", "paper_tables/tab_seg.tex"):
        replaced(path, r"43\.0", "73.0")
    forger.reseal()
    assert hashes_agree()
    (line,) = deep()
    assert re.match(rf"{TABLE}\.tex: line \d+: recorded .*73\.0.*, recomputed .*43\.0", line)


def test_a_copy_alone(forger, deep):
    replaced("paper_tables/tab_seg.tex", r"43\.0", "73.0")
    forger.reseal()
    assert hashes_agree()
    (line,) = deep()
    assert line.startswith("paper_tables/tab_seg.tex: sha256: recorded ")


def test_a_row_of_the_tidy_table(forger, deep):
    replaced("results/smoke/tidy_seg.csv", r"encoder_speedup,1\.25", "encoder_speedup,1.95")
    forger.reseal()
    assert hashes_agree()
    found = deep()
    assert re.match(r"results/smoke/tidy_seg\.csv: line \d+ .*, value: recorded 1\.95, recomputed 1\.25", found[0])


@pytest.mark.parametrize("name", ["headline.json", "headline.csv"])
def test_a_headline_number(forger, deep, name):
    replaced(f"results/smoke/{name}", r"43\.0", "53.0")
    forger.reseal()
    (line,) = deep()
    assert line.startswith(f"results/smoke/{name}: ")
    assert line.endswith("recorded 53.0, recomputed 43.0")


def test_a_verdict_in_all_three_files(forger, deep):
    told = json.loads((AUDIT / "audit.json").read_text())
    claim = next(claim for claim in told["claims"] if claim["verdict"] != "supported")
    before = claim["verdict"]
    claim["verdict"] = "supported"
    (AUDIT / "audit.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    replaced(AUDIT / "audit.md", "Claims", "Claims, all supported")
    replaced(AUDIT / "audit.html", "<title>", "<title>All supported: ")
    forger.reseal()
    assert hashes_agree()
    found = deep()
    assert f"{AUDIT}/audit.json: claims[{claim['id']}].verdict: recorded supported, recomputed {before}" in found
    assert [line.split(":")[0] for line in found] == [f"{AUDIT}/audit.{suffix}" for suffix in ("json", "md", "html")]


def test_an_alteration_that_withdraws_a_verdict_for_nothing(forger, deep):
    told = json.loads((AUDIT / "audit.json").read_text())
    told["alterations"].append({"path": "results/smoke/tidy_seg.csv", "kind": "edited", "reason": "", "record": ""})
    (AUDIT / "audit.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    forger.reseal()
    assert any(
        "alterations, results/smoke/tidy_seg.csv: recorded edited, recomputed nothing" in line for line in deep()
    )


def test_values_of_single_images_with_all_that_follows_fit_without_weights(forger, deep):
    """Why images are evaluated anew: no other file says that these were not measured."""
    path = TAP / "per_sample.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["areas"][:, :2] += 20
    np.savez(path, **arrays)
    (TAP / "metrics.json").write_text((TAP / "metrics.json").read_text().replace("43.0", "63.0"))
    forger.remake()
    assert deep() == []


def test_a_damaged_or_missing_file_is_a_finding_and_the_rest_is_looked_at(forger, deep):
    (TAP / "per_sample.npz").write_bytes(b"PK")
    replaced("paper_tables/tab_seg.tex", r"43\.0", "73.0")
    Path("results/smoke/headline.csv").unlink()
    found = deep()
    assert any("per_sample.npz: cannot be read as per-image results" in line for line in found)
    assert any(line.startswith("results/smoke/headline.csv: is not there") for line in found)
    assert any(line.startswith("paper_tables/tab_seg.tex: sha256") for line in found)


def test_a_record_that_holds_anything_is_a_finding(forger, deep):
    record = TAP / "evaluation.json"
    content = json.loads(record.read_text())
    del content["run"]
    record.write_text(sealed(content))
    assert f"{record}: cannot be followed (KeyError('run'))" in deep()
