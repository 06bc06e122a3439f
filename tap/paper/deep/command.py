"""`tap verify --deep`: a bar while images are evaluated, notes, and one line for each finding."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator

from rich.console import Console
from rich.progress import track

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.paper.deep.reevaluation import Sample
from tap.paper.deep.verification import verify_deeply
from tap.provenance.finding import Kind
from tap.provenance.finding_lines import finding_lines
from tap.provenance.ledger import Record
from tap.provenance.verify import Verification


def run_deep_verification(
    cfg: ScaleConfig,
    verified: Verification,
    allowed: Collection[Kind],
    images: int,
    seed: int | None,
    everything: bool = False,
) -> None:
    """Verifies the results of a scale deeply and prints what was looked at.

    Args:
        cfg: settings of the scale.
        verified: what the comparison with the records found.
        allowed: kinds of its findings to let pass.
        images: images of each run to evaluate anew.
        seed: decides which; drawn if None, so that nobody can know them beforehand.
        everything: name every finding of the comparison with the records.

    Raises:
        UserError: names everything that is wrong, one line each.
    """
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    seed = secrets.randbelow(2**31) if seed is None else seed

    def progress(records: list[Record]) -> Iterator[Record]:
        yield from track(records, "images from weights", console=console, disable=not console.is_terminal)

    outcome = verify_deeply(
        cfg, verified, Sample(seed, images), lambda text: console.print(f"verify --deep: {text}"), progress
    )
    for note in outcome.notes:
        print(f"note: {note}")
    print(f"{outcome.summary()} (images of seed {seed})")
    hashes = finding_lines([item for item in verified.findings if item.kind not in allowed], everything)
    lines = [*hashes, *outcome.lines]
    if lines:
        more = f"{lines[0]}\n" + "\n".join(f"  also {line}" for line in lines[1:]) if lines[1:] else lines[0]
        raise UserError(more)
