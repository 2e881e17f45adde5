"""What programs leave in the temporary directory of a run goes at its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.scratch import VARIABLE
from tests.support.waiting import until

RUN = """
import os, sys, tempfile
from tests.support.scratch import directory_in_memory, use_scratch_directory
use_scratch_directory()
tempfile.mkstemp()
memory = directory_in_memory()
if memory:
    (memory / "file").touch()
print(os.environ["TMPDIR"], os.environ["PYTEST_DEBUG_TEMPROOT"], memory, flush=True)
sys.stdin.read()
"""


def test_it_goes_also_when_the_run_is_killed(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name not in {VARIABLE, "PYTEST_DEBUG_TEMPROOT"}}
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**env, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        scratch, kept, memory = run.stdout.readline().split()
        assert (Path(scratch).parent, kept) == (tmp_path, str(tmp_path)), "pytest's own directories stay beside it"
        assert len(list(Path(scratch).iterdir())) == 1
        assert memory == "None" or Path(memory, "file").exists()
        run.send_signal(signal.SIGKILL)
    until(lambda: not Path(scratch).exists(), "the directory has been removed")
    until(lambda: not Path(memory).exists(), "so has the one in memory")
