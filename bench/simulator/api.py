"""The answers of a simulated engine, and what its command `docker` prints."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from . import containers, programs
from .containers import GONE, Host, Query, Reply

_VERSION = {"Version": "24.0.0", "ApiVersion": "1.43", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
_INFO = {"Driver": "overlay2", "DockerRootDir": "/", "MemTotal": 1 << 34, "NCPU": 4, "SecurityOptions": []}
_FIGURES = {"cpu_stats": {"cpu_usage": {"total_usage": 10**9}}, "memory_stats": {"usage": 1 << 28, "stats": {}}}
_STAT = base64.b64encode(
    json.dumps({"name": "sleep", "size": 1, "mode": 0o755, "mtime": "2026-01-01T00:00:00Z", "linkTarget": ""}).encode()
).decode()
_FILE_HEADERS = f"X-Docker-Container-Path-Stat: {_STAT}\r\n"
_IDS = count(1)


@dataclass(frozen=True)
class Request:
    """What an engine is asked: `path` is without the API's version, `data` the JSON of the body."""

    method: str
    path: str
    query: Query
    data: dict[str, Any]

    @classmethod
    def parse(cls, method: str, target: str, body: bytes) -> "Request":
        """Return the request of a line and a body."""
        parts = urlsplit(target)
        path = unquote(re.sub(r"^/v\d+\.\d+(?=/)", "", parts.path))
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        return cls(method, path, query, json.loads(body) if body[:1] == b"{" else {})


async def answer(host: Host, request: Request) -> tuple[int, Any, str]:
    """Return the status, the value and further headers for a request."""
    path = request.path
    if name := re.fullmatch(r"/containers/([^/]+)/archive", path):
        return (200, "\0" * 1024, _FILE_HEADERS) if host.container(name[1]) else (*GONE, "")
    if path == "/containers/create":
        return *containers.create(host, request.query, request.data), ""
    if request.method == "GET" and path == "/containers/json":
        items = list(map(containers.listed, host.containers.values()))
        return 200, containers.filtered(request.query, items), ""
    if (name := re.fullmatch(r"/containers/([^/]+)(?:/(\w+))?", path)) is not None:
        facts = host.container(name[1])
        return *(GONE if facts is None else await _of_container(host, facts, name[2] or "", request)), ""
    return *_answer_others(host, request), ""


async def _of_container(host: Host, facts: dict[str, Any], action: str, request: Request) -> Reply:
    if request.method == "DELETE":
        return containers.remove(host, facts)
    if action == "json":
        return 200, facts
    if action == "stats":
        return 200, {"read": "2026-01-01T00:00:00Z", **_FIGURES}
    if action == "exec":
        key = f"{next(_IDS):064x}"
        host.executions[key] = {"ID": key, "Cmd": request.data["Cmd"], "ExitCode": None}
        return 201, {"Id": key}
    if action == "start":
        try:
            bindings = facts["HostConfig"].get("PortBindings") or {}
            host.listeners[facts["Id"]] = await programs.listen(host.address, facts["Config"], bindings)
        except OSError as error:
            return 500, {"message": f"driver failed programming external connectivity: {error.strerror}"}
    return containers.change(host, facts, action, request.query)


async def execute(host: Host, key: str) -> bytes:
    """Run a program that was prepared with `exec`; return its output as the engine's frames."""
    execution = host.executions[key]
    execution["ExitCode"], output = await programs.execute(execution["Cmd"])
    return output


def _answer_others(host: Host, request: Request) -> Reply:
    method, path, query = request.method, request.path, request.query
    exact: dict[tuple[str, str], Callable[[], Reply]] = {
        ("GET", "/_ping"): lambda: (200, "OK"),
        ("GET", "/version"): lambda: (200, _VERSION),
        ("GET", "/info"): lambda: (200, _INFO),
        ("GET", "/images/json"): lambda: containers.images(host, query),
        ("POST", "/images/create"): lambda: containers.pull(host, query),
        ("GET", "/volumes"): lambda: (
            200,
            {"Volumes": containers.filtered(query, list(host.volumes.values())), "Warnings": None},
        ),
        ("POST", "/volumes/create"): lambda: containers.new_volume(host, request.data),
    }
    if known := exact.get((method, path)):
        return known()
    if (name := re.fullmatch(r"/exec/(\w+)/json", path)) is not None and name[1] in host.executions:
        return 200, host.executions[name[1]]
    if (name := re.fullmatch(r"/images/(.+)/(json|tag)", path)) is not None:
        return containers.image(host, name[1]) if name[2] == "json" else containers.tag(host, name[1], query)
    if (name := re.fullmatch(r"/volumes/(.+)", path)) is not None and name[1] in host.volumes:
        return (200, host.volumes[name[1]]) if method == "GET" else (204, host.volumes.pop(name[1]) and None)
    return GONE


def command(host: Host, words: list[str]) -> str:
    """Return what `docker` prints for the commands of the peers: `ps`, `run --name NAME IMAGE` and `rm -f NAME`."""
    if words[:1] == ["run"]:
        _, made = containers.create(host, {"name": words[words.index("--name") + 1]}, {"Image": words[-1]})
        return f"{made.get('Id', '')}\n"
    if words[:1] == ["rm"] and (facts := host.container(words[-1])) is not None:
        containers.remove(host, facts)
    return "CONTAINER ID   IMAGE     COMMAND   CREATED   STATUS    PORTS     NAMES\n"
