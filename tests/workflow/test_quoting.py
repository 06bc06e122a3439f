"""Folders that a person configures may hold spaces: they reach shells quoted."""

import re
from pathlib import Path


def test_rules_on_configured_folders_quote_what_reaches_a_shell():
    text = Path("workflow/rules/data.smk").read_text()
    used = re.findall(r"\{\{((?:log|input|output)[^}]*)\}\}", text)
    assert len(used) >= 3
    assert [name for name in used if not name.endswith(":q")] == []
