"""An HDFS for tests: a NameNode and a DataNode of Hadoop 2.7, whose jars come with PySpark 2.4.8.

Later PySparks have the client's jars only. The source distribution is fetched once, by its hash, and the jars stay in the
cache of the tests.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.package_index import configured_index
from tests.support.parent_death import WITH_PARENT
from tests.support.ports import free_ports
from tests.support.waiting import until

PROJECT, FILE = "pyspark", "pyspark-2.4.8.tar.gz"
SHA256 = "3a19b71b8dc8dd91ebc943604a05e1ab01bce052456d42937035632d852d78dc"
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_OPENED = ("java.lang", "java.util", "java.io", "java.net", "java.nio", "sun.nio.ch")
"""Packages of Java into which Hadoop 2.7 looks, and that Java 17 keeps closed."""
_LOG4J = """
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %c{1}: %m%n
"""


def unavailable() -> str | None:
    """Say why HDFS cannot run here, or return None."""
    return None if shutil.which("java") else "HDFS needs java: run `sh .ci/java.sh`"


def jars() -> Path:
    """Return the directory with Hadoop's jars; fetched for the first time, which takes half a minute."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tfprov-tests" / "hdfs"
    final = cache / SHA256[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            part = Path(tempfile.mkdtemp(prefix=".part", dir=cache))
            with tempfile.TemporaryFile(dir=cache) as archive:
                for piece in configured_index().download(PROJECT, FILE):
                    archive.write(piece)
                archive.seek(0)
                digest = hashlib.file_digest(archive, "sha256").hexdigest()
                assert digest == SHA256, f"{FILE} has the SHA-256 {digest}"
                archive.seek(0)
                _extract(archive, part)
            part.rename(final)
    return final


def _extract(archive: object, to: Path) -> None:
    with tarfile.open(fileobj=archive, mode="r|gz") as files:  # type: ignore[call-overload]
        for member in files:
            path = Path(member.name)
            if path.suffix == ".jar" and path.parent.name == "jars" and member.isfile():
                content = files.extractfile(member)
                assert content is not None
                with (to / path.name).open("wb") as out:
                    shutil.copyfileobj(content, out)


@dataclass(frozen=True)
class Hdfs:
    """A NameNode at `url`, without a path."""

    url: str

    @property
    def env(self) -> dict[str, str]:
        """The variables with which clients use it."""
        return {"HADOOP_USER_NAME": "trainer"}


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Hdfs]:
    """Run a NameNode and a DataNode until the end of the block; everything is on loopback."""
    first = free_ports(5)
    _configure(directory, first)
    class_path = f"{directory / 'conf'}:{jars()}/*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    scratch = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    command = ["java", *_JAVA, scratch, *opened, "-cp", class_path]
    server = "org.apache.hadoop.hdfs.server"
    with (directory / "log").open("wb") as log, contextlib.ExitStack() as ends:
        name_node = [*command, f"{server}.namenode.NameNode"]
        options = {"cwd": directory, "stdout": log, "stderr": log}
        subprocess.run([*name_node, "-format", "-nonInteractive"], check=True, **options)  # type: ignore[call-overload]
        for program in (name_node, [*command, f"{server}.datanode.DataNode"]):
            process = subprocess.Popen([*WITH_PARENT, *program], start_new_session=True, **options)  # type: ignore[call-overload]
            ends.callback(_end, process)
        until(lambda: _listens(first) and _listens(first + 2), "HDFS answers")
        hdfs = Hdfs(f"hdfs://127.0.0.1:{first}")
        until(lambda: _can_write(hdfs), "the DataNode has joined")
        yield hdfs


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _can_write(hdfs: Hdfs) -> bool:
    from tfprov.filesystems.remote_dir import RemoteError, open_remote  # noqa: PLC0415

    with contextlib.suppress(RemoteError):
        open_remote(f"{hdfs.url}/joined", hdfs.env).write("it", [b"has"])
        return True
    return False


def _configure(directory: Path, first: int) -> None:
    conf = directory / "conf"
    for name in ("hdfs", "datanode"):  # pages of their own, which are not in the jars
        (conf / "webapps" / name).mkdir(parents=True)
    (conf / "log4j.properties").write_text(_LOG4J)
    site = {
        "dfs.namenode.name.dir": f"file://{directory}/name",
        "dfs.datanode.data.dir": f"file://{directory}/data",
        "dfs.namenode.rpc-address": f"127.0.0.1:{first}",
        "dfs.namenode.http-address": f"127.0.0.1:{first + 1}",
        "dfs.datanode.address": f"127.0.0.1:{first + 2}",
        "dfs.datanode.http.address": f"127.0.0.1:{first + 3}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{first + 4}",
        "dfs.webhdfs.enabled": "false",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.safemode.extension": "0",
    }
    core = {"fs.defaultFS": f"hdfs://127.0.0.1:{first}", "hadoop.tmp.dir": f"{directory}/tmp"}
    (conf / "hdfs-site.xml").write_text(_xml(site))
    (conf / "core-site.xml").write_text(_xml(core))


def _xml(properties: Mapping[str, str]) -> str:
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    return f"<configuration>{''.join(lines)}</configuration>"
