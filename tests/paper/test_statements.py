from decimal import Decimal
from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.statements import load_statements, stated


def test_statements_are_numbers_with_a_place() -> None:
    found = load_statements()
    assert len(found) > 35
    assert all(item.where and item.says and item.numbers for item in found.values())
    assert stated("spearman", "rho").value == Decimal("-0.62")
    assert stated("oracle-grid", "det").value == 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: a, where: x, says: y, numbers: {n: 1.0}}", "quote the number 1.0"),
        ('- {id: a, where: x, says: y, numbers: {n: "many"}}', "'many' is no number"),
        ('- {id: a, where: x, says: y, numbers: {n: "1"}, colour: red}', "0.colour"),
        ("- {id: a, where: x}", "0.says: Field required"),
        ('- &a {id: a, where: x, says: y, numbers: {n: "1"}}\n- *a', "id appears twice"),
        ("[", "no valid YAML"),
        ("a: 1", "valid list"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "statements.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_statements(path)
