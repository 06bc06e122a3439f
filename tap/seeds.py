"""Seeds by name: every random draw of the project is a function of the words and numbers that describe it."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from the parts that name a draw, such as ``derive_seed(seed, "order", epoch)``.

    Each part keeps its type and its boundaries: ``(1, 2)``, ``(12,)`` and ``("1", "2")`` give different seeds. The
    value depends on nothing else: not on the process, the platform or Python's hash randomisation.

    Returns:
        An integer in [0, 2**63), which torch, numpy and random all take.

    Raises:
        TypeError: a part is neither an int nor a str (a float's text differs between libraries).
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise TypeError(f"a seed is derived from int and str parts only, got {type(part).__name__}: {part!r}")
        text = str(part).encode()
        digest.update(b"%s%d:" % (b"i" if isinstance(part, int) else b"s", len(text)))
        digest.update(text)
    return int.from_bytes(digest.digest()[:8], "big") >> 1
