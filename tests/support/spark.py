"""One Spark for all tests of a process: a driver and two executors of this machine, bound to loopback."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.paths import ROOT, SPARK_PYTHONPATH, cache_home
from tests.support.waiting import until

COMMANDS = ("java", "javac", "jar")
"""What `.ci/java.sh` looks for, and installs."""
JAR, WORD_COUNT, ARCHIVE, IN_USE = "tfprov-hadoop.jar", "word-count", "spark.jsa", "in-use"
EXECUTORS, MEMORY = 2, 512
"""How many, and the MB of each."""


def unavailable() -> str | None:
    """Say why Spark cannot run here, or return None."""
    missing = [command for command in COMMANDS if not shutil.which(command)]
    return f"Spark needs {' and '.join(missing)}: run `sh .ci/java.sh`" if missing else None


@contextmanager
def session(directory: Path) -> Iterator[Any]:
    """Start Spark, and end it and its JVM; whatever it writes lies below `directory`.

    Executors are processes of their own, so that a test can end one; a task that takes far longer than others is started
    a second time (speculation), so that every test of a writer may see two attempts at a task.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  a second, for those tests that need it
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
    }
    jar = hadoop_jar()
    archive = jar.with_name(ARCHIVE)
    dumped = None if archive.exists() else archive.with_suffix(f".{os.getpid()}")
    conf = SparkConf().setAppName("tfprov tests").setAll(_settings(directory, jar, archive, dumped).items())
    with pytest.MonkeyPatch.context() as patch:  # of the JVM, from which executors have it
        patch.setenv("PYTHONPATH", os.pathsep.join(SPARK_PYTHONPATH), prepend=os.pathsep)
        patch.setenv("TFPROV_TESTS_SPARK_WORKERS", warm.interpreter().server("spark"))
        gateway = launch_gateway(conf)
    try:
        with _cluster(gateway, directory / "work") as master:
            context = SparkContext(conf=conf.setMaster(master), gateway=gateway)
            try:
                tracker = context._jsc.sc().statusTracker()  # noqa: SLF001  Python's lists no executors
                until(lambda: len(tracker.getExecutorInfos()) > EXECUTORS, "the executors have joined the driver")
                yield SparkSession(context)
            finally:
                SparkSession.getActiveSession().stop()
    finally:
        _end(gateway)
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        if dumped and dumped.exists():
            dumped.rename(archive)


@contextmanager
def _cluster(gateway: Any, work: Path) -> Iterator[str]:
    """Start a master and two workers in the driver's JVM, as `local-cluster` does; yield the master's URL.

    Each worker has an address of its own on loopback: Spark starts no task a second time on the host where it runs.
    """
    deploy, conf = gateway.jvm.org.apache.spark.deploy, gateway.jvm.org.apache.spark.SparkConf(False)
    conf.set("spark.master.rest.enabled", "false").set("spark.shuffle.service.enabled", "false")
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()  # noqa: SLF001  of a Scala tuple
    running = [master]
    url = f"spark://127.0.0.1:{master.address().port()}"
    none, masters = gateway.jvm.scala.Option.empty(), gateway.new_array(gateway.jvm.java.lang.String, 1)
    masters[0] = url
    try:
        for number in range(EXECUTORS):
            place = (
                f"127.0.0.{1 + number}",
                0,
                0,
                1,
                MEMORY,
                masters,
                str(work),
                gateway.jvm.scala.Option.apply(number),
            )
            running.append(deploy.worker.Worker.startRpcEnvAndEndpoint(*place, conf, none))
        yield url
    finally:
        for environment in reversed(running):
            environment.shutdown()


def jars() -> str:
    """Return the class path of Spark, which has Hadoop's client in it."""
    package = importlib.util.find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "jars" / "*")


@cache
def hadoop_jar() -> Path:
    """Return the Hadoop formats, as `make hadoop` compiles them; once for their sources, Java and Spark.

    Beside it, below `WORD_COUNT`, are the classes of a program that uses them.
    """
    program = ROOT / "tests" / "cases" / "hadoop" / "WordCount.java"
    sources = [ROOT / "hadoop" / "build.sh", *sorted((ROOT / "hadoop" / "src").rglob("*.java")), program]
    java = Path(shutil.which("javac") or "").resolve()
    parts = [*(hashlib.sha256(path.read_bytes()).hexdigest() for path in sources), str(java), str(java.stat().st_mtime)]
    home = cache_home() / "hadoop"
    final = home / hashlib.sha256(" ".join([*parts, jars()]).encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            for other in home.glob("*/"):
                _remove_unused(other)
            part = home / f"part-{final.name}"
            _compile("sh", str(ROOT / "hadoop" / "build.sh"), str(part / JAR), jars())
            path = f"{jars()}:{part / JAR}"
            javac = ("javac", "--release", "11", "-Xlint:-options")
            _compile(*javac, "-d", str(part / WORD_COUNT), "-cp", path, str(program))
            part.rename(final)
        # Locked as long as this process lives, or a fork of it.
        fcntl.flock(os.open(final / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC), fcntl.LOCK_SH)
    return final / JAR


def _compile(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _remove_unused(directory: Path) -> None:
    """Remove what an earlier session has made; another session may be using it, of a checkout with other sources."""
    with (directory / IN_USE).open("a") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory)


def _settings(directory: Path, jar: Path, archive: Path, dumped: Path | None) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.executor.extraClassPath": str(jar),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.executor.memory": f"{MEMORY}m",
        "spark.driver.extraJavaOptions": f"{_java()} {_classes(archive, dumped)}",
        "spark.executor.extraJavaOptions": f"{_java()} {_classes(archive)}",
        "spark.python.daemon.module": "tests.support.spark_daemon",
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


def _java() -> str:
    """Return options for few threads, and no time for optimizing what runs for seconds."""
    return f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.io.tmpdir={tempfile.gettempdir()}"


def submit_arguments(master: str | None = None) -> str:
    """Return PYSPARK_SUBMIT_ARGS for a program that starts a Spark of its own, which costs no more than ours."""
    jar = hadoop_jar()
    settings = {"spark.ui.enabled": "false"} | ({"spark.master": master} if master else {})
    for process in ("driver", "executor"):  # the class path that the archive is for
        settings[f"spark.{process}.extraClassPath"] = str(jar)
        settings[f"spark.{process}.extraJavaOptions"] = f"{_java()} {_classes(jar.with_name(ARCHIVE))}"
    return shlex.join([*(word for item in settings.items() for word in ("--conf", "=".join(item))), "pyspark-shell"])


def _classes(archive: Path, dumped: Path | None = None) -> str:
    """Return the option with which Java reads its classes as an earlier session loaded them: half of the CPU time.

    Java takes no archive of another Java or class path, and does without one that is not there; `dumped` is where this
    process leaves one at its end.
    """
    option = f"SharedArchiveFile={archive}" if dumped is None else f"ArchiveClassesAtExit={dumped}"
    return f"-XX:+IgnoreUnrecognizedVMOptions -XX:{option}"


def _end(gateway: Any) -> None:
    """End the JVM of the driver, which ends when its standard input does, and close what is connected to it."""
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(600)  # the first one writes an archive of its classes
