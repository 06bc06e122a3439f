"""A training job of the toy task as a process of its own: ``python job_process.py SECONDS_PER_STEP [plain]``.

`plain` draws nothing, so that two processes may be compared with one, step by step.
"""

import sys

from toy_task import ToyTask, toy_spec

from tap.engine.job import train_run
from tap.errors import UserError
from tap.provenance.orphans import end_with_workflow

if __name__ == "__main__":
    plain = "plain" in sys.argv
    end_with_workflow()
    try:
        train_run(toy_spec(**({"log_steps": 1} if plain else {})), ToyTask(noisy=not plain, pause=float(sys.argv[1])))
    except UserError as error:
        sys.exit(f"error: {error}")
