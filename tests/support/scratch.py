"""The temporary directory of a run of the tests: what programs leave in it goes when the run has ended, however it ends.

Programs that tests kill cannot tidy up: TensorFlow leaves generated sources, multiprocessing its directories, Java its
libraries. pytest keeps the directories of the last tests for whoever looks into a failure, and these stay where they were.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

VARIABLE = "TFPROV_TESTS_TMPDIR"
"""Set where a directory is in use that somebody removes."""
_IN_MEMORY = "TFPROV_TESTS_MEMORY"
"""The directory for many small files, which goes with the other one."""
_MEMORY = Path("/dev/shm")
_FREE = 2 << 30
"""Bytes of memory that must be free there: unit tests use a tenth."""
_REMOVAL = 'exec 3<&0; (cat <&3 >/dev/null; exec rm -rf -- "$0" ${1:+"$1"}) >/dev/null 2>&1 &'
"""Waits until nobody has the other end of its input open any more: the run, and its forks."""


def use_scratch_directory() -> None:
    """Make the directory, and let it be `TMPDIR` of this process and of those that it starts.

    Runs of pytest that a test starts, and mutants, have one already.
    """
    if os.environ.get(VARIABLE):
        return
    outside = tempfile.gettempdir()
    path = tempfile.mkdtemp(prefix="tfprov-tests-")
    in_memory = tempfile.mkdtemp(prefix="tfprov-tests-", dir=_MEMORY) if _has_room(_MEMORY) else ""
    reader, _open_until_the_end = os.pipe()
    subprocess.run(["sh", "-c", _REMOVAL, path, in_memory], stdin=reader, start_new_session=True, check=True)
    os.close(reader)
    os.environ[_IN_MEMORY] = in_memory
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", outside)
    os.environ[VARIABLE] = os.environ["TMPDIR"] = tempfile.tempdir = path


def directory_in_memory() -> Path | None:
    """Return a directory whose files are in memory; None on a machine without one."""
    path = os.environ.get(_IN_MEMORY)
    return Path(path) if path else None


def _has_room(directory: Path) -> bool:
    """Whether programs and files can be put into a directory in memory; that of a container may be small, or run none."""
    try:
        runs_programs = not os.statvfs(directory).f_flag & os.ST_NOEXEC
        return runs_programs and os.access(directory, os.W_OK) and shutil.disk_usage(directory).free > _FREE
    except OSError:
        return False
