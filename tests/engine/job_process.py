"""A training job of the toy task as a process of its own: ``python job_process.py SECONDS_PER_STEP``."""

import sys

from toy_task import ToyTask, toy_spec

from tap.engine.job import train_run
from tap.errors import UserError

if __name__ == "__main__":
    try:
        train_run(toy_spec(), ToyTask(noisy="plain" not in sys.argv, pause=float(sys.argv[1])))
    except UserError as error:
        sys.exit(f"error: {error}")
