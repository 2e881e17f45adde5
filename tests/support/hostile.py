"""Docker engines with scripted answers, without a socket: tfprov reads them through http.client."""

import base64
import io
import json
import re
import struct
from collections.abc import Callable
from typing import Any

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.dial import EngineTimeouts

ID = "afb437bb80617b6f7ad2aabddd327390c20547a76255329c9d7f6b2f94b61fd3"
LABELS = {
    "tfprov.cluster": "lab",
    "tfprov.task": "ps/0",
    "tfprov.host": "h1",
    "tfprov.spec": '{"a": 1}',
    "tfprov.run": "r",
}
VERSION = {
    "Platform": {"Name": ""}, "Version": "20.10.24+dfsg1", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux",
    "Arch": "amd64", "BuildTime": "2026-05-07T21:09:36.000000000+00:00",
}  # fmt: skip
INFO = {
    "ID": "SLQB:5D26", "Containers": 4, "Driver": "overlay2", "NCPU": 2, "MemTotal": 25276510208, "MemoryLimit": True,
    "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"]], "CpuCfsQuota": True,
    "OSType": "linux", "Architecture": "x86_64", "DockerRootDir": "/var/lib/docker",
    "Runtimes": {"runc": {"path": "runc"}}, "SecurityOptions": ["name=seccomp,profile=default"], "Labels": [],
}  # fmt: skip
LISTED = [
    {
        "Id": ID, "Names": ["/tfprov-lab-ps-0"], "Image": "tfprov/lab:1", "ImageID": f"sha256:{ID}", "Created": 1795452507,
        "Ports": [{"PrivatePort": 2222, "PublicPort": 2222, "IP": "10.0.0.2", "Type": "tcp"}], "Labels": LABELS,
        "State": "running", "Status": "Up", "HostConfig": {"NetworkMode": "bridge"}, "Mounts": [],
    }
]  # fmt: skip
CONTAINER = {
    "Id": ID, "Created": "2026-11-23T16:48:27.040324035Z", "Path": "python", "Args": [], "Name": "/tfprov-lab-ps-0",
    "State": {
        "Status": "running", "Running": True, "Paused": False, "OOMKilled": False, "ExitCode": 0, "Error": "", "Pid": 1581,
        "StartedAt": "2026-11-23T16:48:34.035671616Z", "FinishedAt": "2026-11-23T16:48:33.9Z",
    },
    "Image": f"sha256:{ID}", "RestartCount": 1, "Driver": "overlay2", "Platform": "linux",
    "HostConfig": {"Memory": 0, "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}},
    "Mounts": [{"Type": "volume", "Name": "tfprov-lab-ps-0-checkpoints", "Destination": "/checkpoints", "RW": True}],
    "Config": {
        "Hostname": "ps-0", "Tty": False, "Env": ["PATH=/bin"], "Image": "tfprov/lab:1", "WorkingDir": "/code",
        "Entrypoint": None, "Labels": LABELS,
    },
}  # fmt: skip
IMAGE = {
    "Id": f"sha256:{ID}", "RepoTags": ["tfprov/lab:1"], "RepoDigests": None, "Os": "linux", "Architecture": "amd64",
    "Size": 24881989, "RootFS": {"Type": "layers", "Layers": ["sha256:1", "sha256:2"]},
    "Metadata": {"LastTagTime": "2026-11-23T16:48:27.04Z"}, "Config": {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh"]},
}  # fmt: skip
SEAL = {"tfprov.cluster": "lab", "tfprov.data": "k", "tfprov.data.mark": "m"}
VOLUMES = {
    "Volumes": [{"Name": "tfprov-lab-data-k", "Driver": "local", "Labels": SEAL, "Scope": "local"}],
    "Warnings": None,
}
NETWORK = {"Name": "bridge", "Id": ID, "IPAM": {"Driver": "default", "Config": [{"Gateway": "10.214.0.1"}]}}
EVENT = {
    "Type": "container",
    "Action": "die",
    "Actor": {"ID": ID, "Attributes": {"exitCode": "1"}},
    "time": 1795452507,
    "timeNano": 1795452507040324035,
}
STAT = {"name": "model", "size": 12, "mode": 420, "mtime": "2026-11-23T16:48:27.04Z", "linkTarget": ""}


def framed(descriptor: int, data: bytes) -> bytes:
    """Return what a program printed as an engine frames it."""
    return struct.pack(">BxxxL", descriptor, len(data)) + data


RECORDED: tuple[tuple[str, Any], ...] = (
    (r"/version", VERSION),
    (r"/info", INFO),
    (r"/containers/json", LISTED),
    (r"/containers/[^/]+/json", CONTAINER),
    (r"/containers/[^/]+/changes", [{"Path": "/saved/model.ckpt-7.index", "Kind": 1}]),
    (r"/containers/[^/]+/exec|/containers/create", {"Id": ID, "Warnings": []}),
    (r"/exec/[^/]+/json", {"ID": ID, "Running": False, "ExitCode": 0}),
    (r"/exec/[^/]+/start", framed(1, b'{"model.ckpt-1.index": [12, 1795452507]}')),
    (r"/images/json", [{"Id": f"sha256:{ID}", "RepoTags": ["tfprov/lab:1"], "RepoDigests": None, "Labels": None}]),
    (r"/images/.+/json", IMAGE),
    (r"/volumes", VOLUMES),
    (
        r"/system/df",
        {"Volumes": [{"Name": "tfprov-lab-worker-0-checkpoints", "UsageData": {"Size": 0, "RefCount": 0}}]},
    ),
    (r"/networks/bridge", NETWORK),
    (r"/containers/[^/]+/logs", framed(1, b"step 1\n") + framed(2, b"Traceback\n")),
    (r"/events", EVENT),
    (r"/containers/[^/]+/archive", b""),
)
"""What an engine of Docker 20.10 answers to each request, shortened to one of each thing."""


def recorded(path: str) -> bytes:
    """Return the whole answer, headers and all, of a sound engine to a request for `path`."""
    bare = re.sub(r"^/v\d+\.\d+(?=/)", "", path.partition("?")[0])
    for pattern, value in RECORDED:
        if re.fullmatch(pattern, bare):
            return answered(value if isinstance(value, bytes) else json.dumps(value).encode(), stat=STAT)
    return answered(b"", 204)


def answered(body: bytes, code: int = 200, *, stat: Any = None, headers: str = "") -> bytes:
    """Return an answer with `body`; `stat` goes into the header about a file."""
    encoded = base64.b64encode(json.dumps(stat).encode()).decode()
    lines = (
        f"HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nX-Docker-Container-Path-Stat: {encoded}\r\n{headers}"
    )
    return f"{lines}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


class Wire:
    """Stands for a socket: what is sent is taken for a request, whose answer can then be read."""

    deadline: float | None = None

    def __init__(self, answer: Callable[[str, str], bytes | io.RawIOBase]) -> None:
        self._answer, self._asked = answer, b""
        self._file: io.BufferedReader | None = None

    def sendall(self, data: bytes) -> None:
        self._asked += data

    def settimeout(self, _seconds: float | None) -> None:
        """Nothing here waits."""

    def gettimeout(self) -> float:
        return 1.0

    def recv(self, size: int) -> bytes:
        self._file = self._file or self.makefile()
        return self._file.read1(size)

    def makefile(self, *_: Any) -> io.BufferedReader:
        method, path = self._asked.decode("latin-1").split(" ", 2)[:2]
        answer = self._answer(method, path)
        return io.BufferedReader(_Bytes(answer) if isinstance(answer, bytes) else answer)

    def close(self) -> None:
        """Nothing is open."""


class _Bytes(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)

    def settimeout(self, _seconds: float | None) -> None:
        """As a socket's file; nothing here waits."""


class Endless(io.RawIOBase):
    """Sends `head`, and then `piece` again and again; `sent` counts the bytes that somebody read."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self._rest, self._piece, self.sent = head, piece, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self._rest) < len(buffer):
            self._rest += self._piece
        size = len(buffer)
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self.sent += size
        return size

    def settimeout(self, _seconds: float | None) -> None:
        """Nothing here waits."""

    def close(self) -> None:
        """Go on: a second connection gets the same."""


def engine(answer: Callable[[str, str], bytes | io.RawIOBase]) -> Engine:
    """Return an engine of h1 that answers to a method and a path."""
    return Engine.from_dial("h1", lambda: Wire(answer), EngineTimeouts())
