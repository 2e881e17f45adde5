"""TensorFlowRunner on Spark's local-cluster: two executors of this machine, and real TensorFlow."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.strategies import QUALITY
from tests.support import spark as sparks
from tests.support.local_cluster import LocalCluster
from tests.support.paths import PROGRAMS
from tests.support.waiting import LONG, until
from tfprov.errors import TaskFailed, Usage
from tfprov.spark import TensorFlowRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lines = list[tuple[str, str]]
MARK = "TRAINING_OF_A_TEST"
"""A variable by which the processes of a training are known."""


def runner(spark: "SparkSession", lines: Lines, **options: Any) -> TensorFlowRunner:
    own = {"num_slots": 2, "use_gpu": False, "use_custom_strategy": True, "spark": spark, "trusted_network": True}
    options = own | options
    return TensorFlowRunner(on_line=lambda task, line: lines.append((task, line)), **options)


def wiring() -> Callable[..., Any]:
    """Return a function as users write it: Spark gets it by value."""

    def train(left: int, right: int) -> Any:
        import contextlib  # noqa: PLC0415
        import json  # noqa: PLC0415
        import os  # noqa: PLC0415

        print("argv", sys.argv, len(os.environ["API_TOKEN"]))
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # that process has ended
                assert os.environ["API_TOKEN"].encode() not in path.read_bytes()
        return json.loads(os.environ["TF_CONFIG"]), os.environ["CUDA_VISIBLE_DEVICES"], left + right

    return train


def test_the_value_of_the_chief_is_returned_and_output_has_its_task(spark: "SparkSession") -> None:
    lines: Lines = []
    token = "".join(["tok", "en-", "of-", "this-test"])
    config, devices, total = runner(spark, lines, env={"API_TOKEN": token}).run(wiring(), 2, right=3)
    assert (devices, total) == ("-1", 5)
    assert config["task"] == {"type": "worker", "index": 0}
    assert len(set(config["cluster"]["worker"])) == 2
    assert {task for task, line in lines if line == f"argv ['train'] {len(token)}"} == {"worker/0", "worker/1"}


def failing(how: str, seen: Path) -> Callable[[], None]:
    """Return a training that fails in worker/1, and only after the driver has made the file `seen`: it has its line."""

    def train() -> None:
        import os  # noqa: PLC0415
        import signal  # noqa: PLC0415
        import time  # noqa: PLC0415

        print("ready", os.environ["TFPROV_TASK"])
        if os.environ["TFPROV_TASK"] == "worker/1":
            while not os.path.exists(seen):  # noqa: PTH110  a task imports nothing of the test's
                time.sleep(0.02)
            if how == "raise":
                raise ValueError("out of luck")
            if how == "exit":
                raise SystemExit(7)
            os.kill(os.getpid() if how == "kill" else os.getppid(), signal.SIGKILL)
        time.sleep(600)

    return train


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("raise", "worker/1: failed with exit code 1"),
        ("exit", "worker/1: failed with exit code 7"),
        ("kill", "worker/1: was ended by SIGKILL"),
        ("kill the Spark task", "worker/1: was lost: its Spark task was ended, or its executor"),
    ],
)
def test_a_failed_task_ends_all_within_ten_seconds_with_its_last_lines(
    spark: "SparkSession", tmp_path: Path, how: str, what: str
) -> None:
    for number in range(3):  # a busy machine may hold one up; if something waited, it would every time
        took, failure = run_to_failure(spark, how, tmp_path / str(number))
        assert str(failure).startswith(what)
        assert failure.log[0] == "ready worker/1"
        if how == "raise":
            assert failure.log[-1] == "ValueError: out of luck"
        if took < 10:
            return
    pytest.fail(f"the last of three took {took:.1f} s")


def run_to_failure(spark: "SparkSession", how: str, mark_seen: Path) -> tuple[float, TaskFailed]:
    """Train until worker/1 fails; return the seconds from when it was ready to the end of all, and the error."""
    seen: list[float] = []

    def on_line(task: str, line: str) -> None:
        if (task, line) == ("worker/1", "ready worker/1"):
            seen.append(time.monotonic())
            mark_seen.touch()

    mark = uuid.uuid4().hex
    training = TensorFlowRunner(
        num_slots=2, use_gpu=False, use_custom_strategy=True, spark=spark, on_line=on_line, trusted_network=True,
        env={MARK: mark},
    )  # fmt: skip
    with pytest.raises(TaskFailed) as failure:
        training.run(failing(how, mark_seen))
    took = time.monotonic() - seen[0]
    until(lambda: not children(mark), "all processes have ended")
    return took, failure.value


def children(mark: str) -> list[Path]:
    """Return the processes that run of the training with this mark: another one may run beside it."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                processes.append(process)
    return processes


def test_too_many_slots_are_refused_instead_of_waited_for(spark: "SparkSession") -> None:
    with pytest.raises(Usage, match="the training needs 3 tasks at once, and Spark has slots for 2"):
        runner(spark, [], num_slots=3, start_timeout=0.1).run(wiring(), 1, 2)
    runner(spark, [], trusted_network=False)  # its executors reach the driver on loopback
    with pytest.raises(ValueError, match=r"spark.task.resource.gpu.amount"):
        runner(spark, [], use_gpu=True)


def program_of(folder: str, program: str, steps: int) -> Callable[[], None]:
    """Return a function that runs a program of this repository, with its modules beside it."""
    programs = str(PROGRAMS)

    def train() -> None:
        import runpy  # noqa: PLC0415
        import sys  # noqa: PLC0415

        sys.argv = [program, f"--data_dir={folder}", f"--train_steps={steps}"]
        sys.path.insert(0, programs)
        runpy.run_path(f"{programs}/{program}", run_name="__main__")

    return train


def evaluated(folder: Path, saved: Path, steps: int) -> float:
    """Return the macro-F1 of the checkpoint of the last step on images that no worker saw."""
    command = [sys.executable, str(PROGRAMS / "digits_all_reduce.py"), f"--data_dir={folder}", f"--train_steps={steps}"]
    environment = {**os.environ, "TFPROV_CHECKPOINT_DIR": str(saved), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=LONG)
    return float(re.findall(r"macro-F1 (\d\.\d+)", done.stdout)[-1])


@pytest.mark.tensorflow
@pytest.mark.parametrize("steps", [40, pytest.param(800, marks=pytest.mark.matrix)])
def test_workers_train_digits_and_the_checkpoint_is_returned(
    spark: "SparkSession", digits: Path, tmp_path: Path, steps: int
) -> None:
    lines: Lines = []
    training = runner(spark, lines, gather_to=tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "2"})
    training.run(program_of(str(digits), "digits_all_reduce.py", steps))
    assert training.checkpoint is not None
    assert (training.checkpoint.path, training.checkpoint.step) == (tmp_path / f"model.ckpt-{steps}", steps)
    assert training.checkpoint.tensors > 10
    if steps == 800:
        assert evaluated(digits, tmp_path, steps) >= QUALITY


JOB = """
all:
  vars:
    tfprov:
      cluster: rendered
      strategy: multi_worker_mirrored
      code: code
      command: [python, program.py, "{{ worker_hosts }}"]
      env: {API_TOKEN: very-secret}
      checkpoints: {to: saved}
  children:
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""
PROGRAM = """
import json, os, sys
config = json.loads(os.environ["TF_CONFIG"])
assert sys.argv[1] == ",".join(config["cluster"]["worker"]), sys.argv
assert os.environ["API_TOKEN"] == "very-secret"
print("is", os.environ["TFPROV_TASK"], flush=True)
sys.exit(7 if config["task"]["index"] else 0)
"""


def test_a_rendered_job_runs_the_inventorys_programs_and_ends_with_their_exit_code(local_cluster: LocalCluster) -> None:
    if reason := sparks.unavailable():
        pytest.skip(reason)
    home = local_cluster.directory
    (home / "code").mkdir()
    (home / "code/program.py").write_text(PROGRAM)
    local_cluster.write(JOB)
    job = home / "job.py"
    job.write_text(local_cluster.run("render", "spark-submit", apart=True).stdout)
    done = in_spark_driver([str(job)], home, API_TOKEN="very-secret", SPARK_MASTER="local[2]")
    assert done.returncode == 7, done.stdout + done.stderr[-2000:]
    lines = set(done.stdout.splitlines())  # worker/0 may be ended before it prints
    assert {"worker/1 | is worker/1"} <= lines <= {"worker/0 | is worker/0", "worker/1 | is worker/1"}
    assert "error: worker/1: failed with exit code 7" in done.stderr
    without = subprocess.run(
        [sys.executable, str(job)], cwd=home, capture_output=True, text=True, check=False, timeout=LONG,
        env={**os.environ, "API_TOKEN": ""},
    )  # fmt: skip
    assert (without.returncode, "API_TOKEN must be set" in without.stderr) == (2, True)


def in_spark_driver(argv: list[str], directory: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that starts a Spark of its own; whatever is left of it is ended."""
    environment = {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **variables,
        "SPARK_WORKER_DIR": str(directory / "work"), "SPARK_LOCAL_DIRS": str(directory / "local"),
        "PYSPARK_SUBMIT_ARGS": sparks.submit_arguments(variables.get("SPARK_MASTER")),
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, *argv], cwd=directory, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=LONG)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(argv, process.returncode, printed, errors)


GPUS = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tfprov.spark import TensorFlowRunner

def train():
    print(os.environ["CUDA_VISIBLE_DEVICES"])

names = ("worker", "executor")
settings = {f"spark.{name}.resource.gpu.discoveryScript": sys.argv[1] for name in names}
settings |= {f"spark.{name}.resource.gpu.amount": "4" for name in (*names, "task")}
builder = SparkSession.builder.master("local-cluster[2,1,512]")
settings |= {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.executor.memory": "512m"}
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for slots in (6,):
    lines = []
    options = {"use_custom_strategy": True, "spark": spark, "on_line": lambda *line: lines.append(line)}
    options["start_timeout"] = float(sys.argv[2])
    TensorFlowRunner(num_slots=slots, **options).run(train)
    print(slots, sorted(lines))
spark.stop()
"""


def test_gpus_are_split_as_a_discovery_script_names_them(tmp_path: Path) -> None:
    if reason := sparks.unavailable():
        pytest.skip(reason)
    script, program = tmp_path / "gpus.sh", tmp_path / "gpus.py"
    script.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["0", "1", "2", "3"]}\'\n')
    script.chmod(0o755)
    program.write_text(GPUS)
    done = in_spark_driver([str(program), str(script), str(LONG)], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "6 [('worker/0', '0,1,2'), ('worker/1', '0,1,2')]" in done.stdout
