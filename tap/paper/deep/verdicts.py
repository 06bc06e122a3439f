"""The audit's verdicts, judged anew on the results as they are."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from tap.paper.audit.audit import UNTRUSTED, Alteration, make_audit
from tap.paper.audit.job import FILES, audit_folder
from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, place_of
from tap.paper.deep.texts import text_differences, tree_differences
from tap.paper.difference import Difference
from tap.provenance.ledger import Ledger
from tap.provenance.root_hash import root_hash

VERDICTS, PAGES = "verdicts", "files of the audit"
_DATA: Final = "audit.json"


def check_verdicts(scale: str, ledger: Ledger, stale: Collection[str], untrusted: Collection[str]) -> Outcome:
    """Every verdict with its value and interval, and the audit's three files, with the alterations that it names.

    Of an audit by other code only the verdicts are compared, claim by claim.

    Args:
        scale: whose.
        ledger: the records.
        stale: names of records that today's code or settings would not give.
        untrusted: files that are edited or of unknown origin now.
    """
    outcome, folder = Outcome(), audit_folder(scale)
    for record in by_job(ledger, "audit"):
        with outcome.following(record.name):
            texts = {name: place_of(ledger, (folder / name).as_posix()).read_text(encoding="utf-8") for name in FILES}
            file, found = (folder / _DATA).as_posix(), list[Difference]()
            told = json.loads(texts[_DATA])
            altered = [
                Alteration(item["path"], item["kind"], item["reason"], item.get("record", ""))
                for item in told["alterations"]
            ]
            for item in altered:
                if item.kind in UNTRUSTED and item.path not in untrusted:  # it would withdraw verdicts for nothing
                    found.append(Difference(file, f"alterations, {item.path}", item.kind, None))
            shown, now = told.get("root_hash", ""), root_hash(ledger)
            if shown and shown != now:
                found.append(Difference(file, "root_hash", shown, now))
            anew = make_audit(scale, ledger.root, altered, root_hash=shown)
            outcome.add(VERDICTS, len(anew.judgements), found)
            if record.name in stale:
                outcome.add(PAGES, 1, _of_claims(file, told, json.loads(FILES[_DATA](anew))))
                outcome.notes.append(f"{folder.as_posix()}: words not compared: made by other code")
                continue
            for name, text in texts.items():
                outcome.add(PAGES, 1, text_differences((folder / name).as_posix(), text, FILES[name](anew)))
    return outcome


def _of_claims(file: str, told: dict[str, Any], anew: dict[str, Any]) -> list[Difference]:
    """Claims whose verdict or evidence in numbers is another one."""
    ours, theirs = ({claim["id"]: _numbers(claim) for claim in tree["claims"]} for tree in (told, anew))
    return list(tree_differences(file, ours, {name: claim for name, claim in theirs.items() if name in ours}))


def _numbers(claim: dict[str, Any]) -> dict[str, Any]:
    parts = [{key: part[key] for key in ("verdict", "value", "low", "high")} for part in claim["parts"]]
    return {"verdict": claim["verdict"], "parts": parts}
