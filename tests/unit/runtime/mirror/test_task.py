"""The program beside the mirror: its signals and exit code, and its lines about the remote directory."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.remote_dirs import FaultyFileSystem, remote_dir, save
from tests.support.waiting import until
from tfprov.filesystems.generations import read_newest
from tfprov.filesystems.remote_dir import RemoteError
from tfprov.filesystems.urls import SCHEMES
from tfprov.runtime.mirror.loop import MirrorLoop
from tfprov.runtime.mirror.restore import Owner, take_over

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


def begun(tmp_path: Path, fs: FaultyFileSystem, lines: list[str], pauses: list[float] | None = None) -> MirrorLoop:
    waited = [] if pauses is None else pauses
    owner = Owner("linear", "run-1")
    remote = remote_dir(tmp_path / "far", fs)
    return MirrorLoop.begin(remote, tmp_path / "local", owner, lines.append, waited.append, lambda: sum(waited))


def test_an_unreachable_directory_is_told_once_and_again_when_it_is_complete(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    save(tmp_path / "local", 100)
    fs.cut_at = 0
    assert not loop.try_once()
    assert not loop.try_once()
    assert len(lines) == 1
    assert "mirroring to s3://bucket/run waits: " in lines[0]
    assert "the connection was cut" in (tmp_path / "local/mirror.json").read_text()
    fs.cut_at = None
    assert loop.try_once()
    assert lines[1:] == ["model.ckpt-100 is in s3://bucket/run", "s3://bucket/run is complete again"]


def test_the_end_waits_for_the_directory_and_says_when_it_is_behind(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    loop.start()
    fs.cut_at = 0
    save(tmp_path / "local", 100)
    asked: list[float] = []

    def pause(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) == 3

    loop.stop(pause, patient=True)
    assert len(asked) == 3
    assert asked[2] > asked[0]
    assert lines[-1].startswith("s3://bucket/run is behind: ")
    assert lines[-1].count("s3://") == 1


def test_a_directory_that_was_taken_over_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    lines: list[str] = []
    loop = begun(tmp_path, FaultyFileSystem(), lines)
    take_over(remote_dir(tmp_path / "far"), tmp_path / "other", Owner("linear", "run-1"), lambda _line: None)
    save(tmp_path / "local", 100)
    assert not loop.try_once()
    reason = "it was taken over by another task, which restored from it: this one's checkpoints stay here"
    line = f"mirroring to s3://bucket/run has ended: {reason}; end one of the two with `tfprov down`"
    assert lines[-1] == line
    assert json.loads((tmp_path / "local" / "mirror.json").read_text())["problem"] == line.partition(": ")[2]


def test_a_directory_that_does_not_answer_at_the_start_ends_the_task_after_a_while(tmp_path: Path) -> None:
    fs, lines, pauses = FaultyFileSystem(cut_at=0), list[str](), list[float]()
    with pytest.raises(RemoteError, match="the connection was cut"):
        begun(tmp_path, fs, lines, pauses)
    assert pauses == [1.0, 2.0, 4.0, 8.0, *[15.0] * 7], "of 120 s"
    assert [line.partition("; ")[2] for line in lines] == ["trying again"]


def test_the_training_never_waits_for_the_directory(tmp_path: Path) -> None:
    """A thread that hangs in a request holds nothing that the program needs."""
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    release = threading.Event()

    def hang() -> None:
        release.wait(60)

    fs.seen = hang
    save(tmp_path / "local", 100)
    loop.start()
    for step in range(200, 1000, 100):
        save(tmp_path / "local", step, keep=1)
    assert (tmp_path / "local/model.ckpt-900.index").is_file()
    release.set()
    loop.stop(lambda _seconds: False, patient=True)
    assert not loop.problem


def test_weights_that_a_saver_leaves_with_a_ps_are_told(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    local = tmp_path / "local"
    (local / "model.ckpt-5.meta").write_bytes(b"graph")
    (local / "checkpoint").write_text('model_checkpoint_path: "/checkpoints/model.ckpt-5"\n')
    assert loop.try_once()
    assert loop.try_once()
    (line,) = lines
    assert (
        line
        == "the weights of model.ckpt-5 are not here, but with a ps; save with tfprov.runtime, or Saver(sharded=False)"
    )
    assert loop.problem == line


def test_every_scheme_names_its_package_and_extra() -> None:
    assert {name: (it.package, it.extra) for name, it in SCHEMES.items()} == {
        "s3": ("s3fs", "s3"), "hdfs": ("hdfs-native", "hdfs"), "gs": ("gcsfs", "gs"),
    }  # fmt: skip
