"""A program beside the mirror of its checkpoints, as processes that a host starts: signals, exit codes, another host."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.remote_dirs import remote_dir
from tests.support.waiting import until
from tfprov.filesystems.generations import read_newest

WRAPPED = """
import sys
from pathlib import Path
from tests.support.remote_dirs import remote_dir
from tfprov.runtime.mirror.task import main
import json
import os
sys.exit(main(sys.argv[2:], os.environ, lambda url, env: remote_dir(Path(sys.argv[1]))))
"""
TRAINS = """
import os, signal, sys, time
sys.path.insert(0, os.environ["ROOT"])
from pathlib import Path
from tests.support.remote_dirs import save
directory = Path(os.environ["TFPROV_CHECKPOINT_DIR"])
names = sorted(path.name for path in directory.glob("*.index"))
print("names", names, flush=True)
received = []
def handle(number, frame):
    received.append(number)
    save(directory, 900)
    print("signals", received, flush=True)
    time.sleep(0.2)
    sys.exit(143)
signal.signal(signal.SIGTERM, handle)
save(directory, 100)
print("trains", flush=True)
{then}
"""


class Task:
    """A program that is started as a task with a remote directory."""

    def __init__(self, directory: Path, then: str, *options: str) -> None:
        self.far = directory / "far"
        env = {
            **os.environ,
            "PYTHONPATH": os.getcwd(),  # noqa: PTH109
            "ROOT": os.getcwd(),  # noqa: PTH109
            "TFPROV_CHECKPOINT_URL": "s3://bucket/run",
            "TFPROV_CHECKPOINT_DIR": str(directory / "local"),
            "TFPROV_CLUSTER": "linear",
            "TFPROV_RUN": "run-1",
        }
        command = [sys.executable, "-c", WRAPPED, str(self.far), *options, "--", sys.executable, "-c"]
        self.process = subprocess.Popen(
            [*command, TRAINS.replace("{then}", then)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def line(self, start: str) -> str:
        """Return the next line that begins so."""
        assert self.process.stdout is not None
        return next(line for line in self.process.stdout if line.startswith(start))

    def mirrored(self) -> list[int]:
        manifest = read_newest(remote_dir(self.far))
        return [one.step for one in manifest.checkpoints] if manifest else []


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    started: list[Task] = []
    yield started
    for task in started:
        if task.process.poll() is None:
            os.killpg(task.process.pid, signal.SIGKILL)
        task.process.communicate()


@pytest.mark.parametrize("options", [(), ("--group",)], ids=["container", "process group"])
def test_sigterm_reaches_the_program_once_and_its_last_checkpoint_is_mirrored(
    tmp_path: Path, tasks: list[Task], options: tuple[str, ...]
) -> None:
    tasks.append(task := Task(tmp_path, "time.sleep(600)", *options))
    task.line("trains")
    until(lambda: task.mirrored() == [100], "the first checkpoint is mirrored while the program runs")
    os.kill(task.process.pid, signal.SIGTERM)
    assert task.line("signals") == "signals [15]\n"
    assert task.process.wait() == 143
    assert task.process.stdout
    assert not [line for line in task.process.stdout if line.startswith("signals")], "no second one came later"
    assert task.mirrored() == [100, 900]


@pytest.mark.parametrize(("then", "code"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_programs_and_what_it_saved_last_is_mirrored(
    tmp_path: Path, tasks: list[Task], then: str, code: int
) -> None:
    tasks.append(task := Task(tmp_path, then))
    assert task.process.wait() == code
    assert task.mirrored() == [100]


def test_a_program_on_another_host_finds_the_checkpoint(tmp_path: Path, tasks: list[Task]) -> None:
    (tmp_path / "b").mkdir()
    tasks.append(first := Task(tmp_path, "pass"))
    assert first.process.wait() == 0
    (tmp_path / "far").rename(tmp_path / "b/far")
    tasks.append(second := Task(tmp_path / "b", "pass"))
    assert second.line("names") == "names ['model.ckpt-100.index']\n"
    assert second.process.wait() == 0


def test_a_program_that_is_not_there_ends_with_127(tmp_path: Path) -> None:
    env = {**os.environ, "TFPROV_CHECKPOINT_URL": "s3://b/r", "TFPROV_CHECKPOINT_DIR": str(tmp_path / "local")}
    command = [sys.executable, "-c", WRAPPED, str(tmp_path / "far"), "--", "no-such-program"]
    done = subprocess.run(command, env=env | {"PYTHONPATH": "."}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        127,
        "tfprov: no-such-program cannot be started: No such file or directory\n",
    )


def test_a_local_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "local").touch()
    env = {**os.environ, "TFPROV_CHECKPOINT_URL": "s3://b/r", "TFPROV_CHECKPOINT_DIR": str(tmp_path / "local")}
    command = [sys.executable, "-c", WRAPPED, str(tmp_path / "far"), "--", "true"]
    done = subprocess.run(command, env=env | {"PYTHONPATH": "."}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"tfprov: {tmp_path}/local cannot be written: File exists; look at the disk of this host\n",
    )
