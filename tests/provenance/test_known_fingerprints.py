import json

import pytest

from tap.provenance import fingerprint, known_fingerprints
from tap.provenance.fingerprint import code_fingerprint
from tap.provenance.known_fingerprints import KEPT

ROOTS = ["tap.work:run"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "_read", {})
    monkeypatch.setitem(known_fingerprints._asked, "use", True)
    (tmp_path / "tap").mkdir()
    (tmp_path / "tap" / "__init__.py").write_text("")
    (tmp_path / "tap" / "work.py").write_text("def run():\n    return 1\n")
    return tmp_path


def new_process(monkeypatch):
    monkeypatch.setattr(fingerprint, "_read", {})


def test_another_process_reads_what_was_found(project, monkeypatch):
    found = code_fingerprint(ROOTS, root=project)
    new_process(monkeypatch)
    monkeypatch.setattr(fingerprint, "_reach", None)
    assert code_fingerprint(ROOTS, root=project) == found


def test_a_changed_line_or_library_is_found_out_anew(project, monkeypatch):
    found = code_fingerprint(ROOTS, root=project)
    new_process(monkeypatch)
    assert code_fingerprint(ROOTS, ["torch"], root=project) != found
    (project / "tap" / "work.py").write_text("def run():\n    return 2\n")
    assert code_fingerprint(ROOTS, root=project) != found


def test_who_verifies_does_not_believe_the_file(project, monkeypatch):
    found = code_fingerprint(ROOTS, root=project)
    kept = json.loads((project / KEPT).read_text())
    (project / KEPT).write_text(json.dumps(kept | {"found": dict.fromkeys(kept["found"], "0" * 64)}))
    new_process(monkeypatch)
    assert code_fingerprint(ROOTS, root=project) == "0" * 64
    known_fingerprints.find_out_anew()
    assert code_fingerprint(ROOTS, root=project) == found


@pytest.mark.parametrize("content", ["", "[]", '{"code": "another", "found": {}}'])
def test_a_damaged_file_is_no_knowledge(project, monkeypatch, content):
    found = code_fingerprint(ROOTS, root=project)
    (project / KEPT).write_text(content)
    new_process(monkeypatch)
    assert code_fingerprint(ROOTS, root=project) == found
