"""Writes while tasks run twice, fail, and lose their executor: what is there in the end is complete, without duplicates."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tfprov.spark
from tests.support.waiting import started, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, TASKS = 400, 8


@pytest.fixture(autouse=True)
def _registered(spark: "SparkSession") -> None:
    tfprov.spark.register(spark)


def check(spark: "SparkSession", path: Path, attempts: Path) -> int:
    """Check what was written, and return how many attempts at its tasks there were."""
    ids = [row.id for row in spark.read.format("tfrecord").load(str(path)).collect()]
    assert sorted(ids) == list(range(ROWS))
    assert not (path / "_temporary").exists()
    assert len(list(path.glob("part-*"))) == TASKS
    return len(list(attempts.iterdir()))


def noted(directory: Path, first_attempt: Any) -> Any:
    """Return a step of a query: each attempt at a task is a file in `directory`; the first one of task 3 does more."""
    directory.mkdir()

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415  in the executor

        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.attemptNumber()
        first = not list(directory.glob(f"{task}-*"))
        (directory / f"{task}-{attempt}-{os.getpid()}").touch()
        for batch in batches:
            yield batch
            if task == 3 and first:
                first_attempt(directory)
                first = False

    return step


def test_a_task_that_runs_twice_is_written_once(spark: "SparkSession", tmp_path: Path) -> None:
    """The first attempt waits until the second one is there: Spark starts it beside the first (speculation)."""
    attempts, path = tmp_path / "attempts", tmp_path / "t"

    def wait(directory: Path) -> None:
        until(lambda: len(list(directory.glob("3-*"))) == 2, "the second attempt")

    # A task is started again once it takes a multiple of the others' time, which starts no Python workers from here on.
    spark.range(TASKS, numPartitions=TASKS).mapInArrow(lambda batches: batches, "id long").collect()
    df = spark.range(ROWS, numPartitions=TASKS).mapInArrow(noted(attempts, wait), "id long")
    tfprov.spark.write(df, str(path))
    assert check(spark, path, attempts) > TASKS
    assert len(list(attempts.glob("3-*"))) == 2


def test_a_task_that_fails_is_tried_again(spark: "SparkSession", tmp_path: Path) -> None:
    attempts, path = tmp_path / "attempts", tmp_path / "t"

    def fail(_directory: Path) -> None:
        raise RuntimeError("once")

    df = spark.range(ROWS, numPartitions=TASKS).mapInArrow(noted(attempts, fail), "id long")
    tfprov.spark.write(df, str(path))
    assert check(spark, path, attempts) > TASKS


def test_the_tasks_of_a_killed_executor_run_again_on_another(spark: "SparkSession", tmp_path: Path) -> None:
    """The process of an executor is killed while it writes."""
    attempts, path = tmp_path / "attempts", tmp_path / "t"

    def kill(directory: Path) -> None:
        executor = os.getpid()
        while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{executor}/cmdline").read_bytes():
            executor = int(Path(f"/proc/{executor}/stat").read_text().rpartition(")")[2].split()[1])
        (directory.parent / "killed").write_text(f"{executor} {started(executor)}")
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)  # this process ends with its executor

    df = spark.range(ROWS, numPartitions=TASKS).mapInArrow(noted(attempts, kill), "id long")
    tfprov.spark.write(df, str(path))
    killed, start = (tmp_path / "killed").read_text().split()
    until(lambda: started(int(killed)) != start, "Spark's worker has seen the end of its executor")
    assert check(spark, path, attempts) > TASKS
