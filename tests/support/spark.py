"""One Spark for all tests of a process: a driver and two executors of this machine, bound to loopback."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMANDS = ("java", "javac", "jar")
"""What `.ci/java.sh` looks for, and installs."""
EXECUTORS = 2


def unavailable() -> str | None:
    """Say why Spark cannot run here, or return None."""
    missing = [command for command in COMMANDS if not shutil.which(command)]
    return f"Spark needs {' and '.join(missing)}: run `sh .ci/java.sh`" if missing else None


@contextmanager
def session(directory: Path) -> Iterator[Any]:
    """Start Spark, and end it and its JVM; whatever it writes lies below `directory`.

    Executors are processes of their own, so that a test can end one; a task that takes far longer than others is started
    a second time (speculation), so that every test of a writer sees two attempts at a task.
    """
    from pyspark import SparkContext  # noqa: PLC0415  a second, for those tests that need it
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
        "SPARK_WORKER_DIR": str(directory / "work"),
    }
    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,512]").appName("tfprov tests")
    for name, value in _settings(directory).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = SparkContext._gateway  # noqa: SLF001  its JVM outlives the session otherwise
    try:
        yield spark
    finally:
        spark.stop()
        _end(gateway)
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _settings(directory: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
    }


_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Few threads, and no time for optimizing what runs for seconds."""


def _end(gateway: Any) -> None:
    """End the JVM of the driver, which ends when its standard input does, and close what is connected to it."""
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(60)
