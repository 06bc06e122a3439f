"""Pages opened in a real browser: what a visitor's script sees there, and what the console says."""

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium or chrome is installed; the page is not opened in a browser"
)
# The time of the page's own clock, which runs ahead where nothing is waited for. Much more than any visit takes: images
# are decoded by another thread, in real time, and on a busy machine many of the visitor's timers go by meanwhile.
VIRTUAL_MILLISECONDS = 600_000


def browse(page: str, folder: Path) -> tuple[str, list[str]]:
    """The page after its scripts ran, and the lines of its own console: messages, errors, refused requests."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
    command += [f"--user-data-dir={folder / 'profile'}", f"--virtual-time-budget={VIRTUAL_MILLISECONDS}"]
    done = subprocess.run([*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def visit(page: str, doing: str, folder: Path) -> tuple[Any, list[str]]:
    """What a visitor's script returns, and the console's lines.

    Args:
        page: HTML.
        doing: body of an asynchronous function of the page, run when it has loaded.
        folder: where the page and the browser's profile may lie.
    """
    script = (
        f'<script>addEventListener("load", async () => {{ const visit = async () => {{ {doing} }};\n'
        'document.body.textContent = ["", JSON.stringify(await visit()), ""].join("SEEN"); });</script>'
    )
    dom, console = browse(page.replace("</body>", f"{script}</body>"), folder)
    _, *seen = dom.split("SEEN")
    assert len(seen) == 2, f"the visit did not come to its end; console: {console}"
    return json.loads(html.unescape(seen[0])), console
