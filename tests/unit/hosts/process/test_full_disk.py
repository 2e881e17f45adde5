"""A supervisor lives on, and records the end of its task, while the disk is full."""

import errno
import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.support.files import write
from tests.support.full_disk import full_disk
from tfprov.errors import HostError
from tfprov.hosts.process.stop import stop_task
from tfprov.hosts.process.supervisor import Supervisor
from tfprov.hosts.process.task_dir import TaskDir, os_errors


@pytest.fixture
def directory(tmp_path: Path) -> TaskDir:
    made = TaskDir(tmp_path)
    made.work.mkdir()
    program = "import os; os.write(1, b'last words\\n'); raise SystemExit(3)"
    made.write("order.json", {"argv": [sys.executable, "-c", program], "env": {}})
    return made


def test_a_log_whose_times_cannot_be_written_ends_no_supervisor(directory: TaskDir) -> None:
    directory.times.path.mkdir()  # no file can be written there
    supervise(directory)
    assert ended(directory) == ("exited", 3)
    assert directory.log.read_text() == "last words\n"


def test_the_end_is_written_over_the_last_state_where_no_file_can_be_made(directory: TaskDir) -> None:
    directory.write("state.json", {"state": "exited", "rest": "x" * 3000})
    (directory.path / "state.json.part").mkdir()
    supervise(directory)
    assert ended(directory) == ("exited", 3)


def test_a_task_is_stopped_also_where_its_grace_cannot_be_written(directory: TaskDir) -> None:
    (directory.path / "grace.part").mkdir()
    held = directory.lock(timeout=1.0)
    assert held is not None
    release = threading.Timer(0.1, os.close, (held,))
    release.start()
    stop_task("h1", directory, "worker/0", 1.0)
    release.join()
    assert not directory.is_supervised()


class Copies:
    """Copies a directory, as the start of a task does."""

    host = "h1"

    @os_errors
    def copy(self, source: Path, target: Path) -> None:
        shutil.copytree(source, target)


def test_a_program_that_does_not_fit_on_the_disk_is_one_short_error(tmp_path: Path) -> None:
    write(tmp_path / "code", {f"{number}.py": "x" * 100 for number in range(50)})
    with pytest.raises(HostError) as caught, full_disk(10):
        Copies().copy(tmp_path / "code", tmp_path / "work")
    assert re.fullmatch(rf"h1: File too large: {tmp_path}/work/\d+\.py", str(caught.value))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "work/1.py"),
        shutil.Error([("code/1.py", "work/1.py", "[Errno 28] No space left on device: 'work/1.py'")]),
    ],
)
def test_an_error_of_the_disk_has_its_fix(error: OSError) -> None:
    class Fails:
        host = "h1"

        @os_errors
        def start(self) -> None:
            raise error

    with pytest.raises(HostError, match=r"^h1: No space left on device: work/1\.py; free some there$"):
        Fails().start()


def supervise(directory: TaskDir) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        Supervisor(directory).run(-1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ended(directory: TaskDir) -> tuple[str, int]:
    state = directory.read("state.json")
    assert state is not None
    return state["state"], state["exit_code"]
