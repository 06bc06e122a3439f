"""Fails if the summary of `make reproduce` lacks a table."""

import sys
from pathlib import Path

from tap.paper.tables.names import names

lines = [line.split() for line in Path(sys.argv[1]).read_text().splitlines() if line.startswith("│ tab_")]
shown = {words[1] for words in lines}
missing = [name for name in names() if name not in shown]
sys.exit(f"the summary lacks {', '.join(missing)}" if missing else 0)
