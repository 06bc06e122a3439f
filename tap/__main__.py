"""`tap ...`, also as `python -m tap ...`: in a workflow a fork of its process, anywhere else the command line.

The command line takes most of a second to import, more than many a job of the smoke scale takes. A job of a workflow
only waits for its fork, so what it imports before it asks for one stays light.
"""

from __future__ import annotations

import sys

from tap.jobs import warm


def main() -> None:
    """Entry point of the `tap` command."""
    status = warm.run_warm(sys.argv)
    if status is not None:
        sys.exit(status)
    from tap import cli

    cli.run()


if __name__ == "__main__":
    main()
