"""The temporary directory of a run of the tests: what programs leave in it goes when the run has ended, however it ends.

Programs that tests kill cannot tidy up: TensorFlow leaves generated sources, multiprocessing its directories, Java its
libraries. pytest keeps the directories of the last tests for whoever looks into a failure, and these stay where they were.
"""

import os
import subprocess
import tempfile

VARIABLE = "TFPROV_TESTS_TMPDIR"
"""Set where a directory is in use that somebody removes."""
_REMOVAL = 'exec 3<&0; (cat <&3 >/dev/null; exec rm -rf -- "$0") >/dev/null 2>&1 &'
"""Waits until nobody has the other end of its input open any more: the run, and its forks."""


def use_scratch_directory() -> None:
    """Make the directory, and let it be `TMPDIR` of this process and of those that it starts.

    Runs of pytest that a test starts, and mutants, have one already.
    """
    if os.environ.get(VARIABLE):
        return
    outside = tempfile.gettempdir()
    path = tempfile.mkdtemp(prefix="tfprov-tests-")
    reader, _open_until_the_end = os.pipe()
    subprocess.run(["sh", "-c", _REMOVAL, path], stdin=reader, start_new_session=True, check=True)
    os.close(reader)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", outside)
    os.environ[VARIABLE] = os.environ["TMPDIR"] = tempfile.tempdir = path
