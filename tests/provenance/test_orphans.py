import os
import signal
import subprocess
import sys
import time

import pytest

from tap.provenance.orphans import LAUNCHER, VARIABLE

JOB = (
    "import time; from tap.provenance.orphans import end_with_workflow; end_with_workflow();"
    "print('works', flush=True); time.sleep(60)"
)
STARTER = f"""
import os, subprocess, sys, time
job = subprocess.Popen([sys.executable, "-c", {JOB!r}], env={{**os.environ, sys.argv[1]: str(os.getpid())}})
time.sleep(60)
"""


@pytest.mark.parametrize("variable", [VARIABLE, LAUNCHER])
@pytest.mark.parametrize("waited_for", [True, False])
def test_a_job_ends_when_its_workflow_or_launcher_is_killed(waited_for, variable):
    with subprocess.Popen([sys.executable, "-c", STARTER, variable], stdout=subprocess.PIPE, text=True) as workflow:
        assert workflow.stdout.readline() == "works\n"
        workflow.send_signal(signal.SIGKILL)
        if waited_for:
            workflow.wait()
        started = time.monotonic()
        assert workflow.stdout.read() == ""  # the end of the file comes when the job, too, is gone
        assert time.monotonic() - started < 20


def test_a_job_of_a_workflow_that_is_gone_ends_at_once():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    environment = {**os.environ, "TAP_WORKFLOW_PROCESS": str(gone.pid)}
    done = subprocess.run([sys.executable, "-c", JOB], env=environment, capture_output=True, timeout=30)
    assert done.returncode == -signal.SIGKILL


def test_a_job_that_a_person_started_watches_nothing():
    code = JOB.replace("time.sleep(60)", "import threading; print(threading.active_count())")
    environment = {name: value for name, value in os.environ.items() if name != "TAP_WORKFLOW_PROCESS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "works\n1\n"
