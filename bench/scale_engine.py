"""The engines of all simulated hosts, in one process: what tfprov asks of an engine, with nothing behind it.

    python scale_engine.py SOCKET

A container is an entry of a list that runs until it is stopped; a pull and a file that is put have no content. The command
`docker` of a host sends a line with the host's address and its arguments; with `system dial-stdio` the connection then is
that of an engine.
"""

import asyncio
import base64
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_ENDED, _CREATED = "0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
_VERSION = {"Version": "24.0.0", "ApiVersion": "1.43", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
_STAT = base64.b64encode(
    json.dumps({"name": "sleep", "size": 1, "mode": 0o755, "mtime": _CREATED, "linkTarget": ""}).encode()
).decode()
_IDS = count(1)

CLIENT = """#!/usr/bin/perl
# The command `docker` of a simulated host: copies between its standard streams and the process of all engines.
use Socket;
socket(S, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
connect(S, sockaddr_un('{socket}')) or die "connect: $!";
syswrite(S, (split / /, $ENV{{SSH_CONNECTION}})[2] . " @ARGV\\n");
shutdown(S, 1) unless "@ARGV" eq "system dial-stdio";
my ($to, $from, $data) = ("@ARGV" eq "system dial-stdio", 1);
while ($from) {{
    my $read = "";
    vec($read, fileno(S), 1) = 1;
    vec($read, 0, 1) = 1 if $to;
    select($read, undef, undef, undef);
    if ($to && vec($read, 0, 1)) {{
        sysread(STDIN, $data, 65536) ? syswrite(S, $data) : do {{ $to = 0; shutdown(S, 1); }};
    }}
    if (vec($read, fileno(S), 1)) {{
        sysread(S, $data, 65536) ? syswrite(STDOUT, $data) : do {{ $from = 0; }};
    }}
}}
"""
"""A program for perl, which each Debian has: it starts in a third of Python's time."""


@dataclass
class Host:
    """What one engine has, by name or id."""

    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, list[str]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def container(self, name: str) -> dict[str, Any] | None:
        """Return the container with this id or name."""
        names = (it for it in self.containers.values() if it["Name"] == f"/{name}")
        return self.containers.get(name) or next(names, None)


Reply = tuple[int, Any]
Query = dict[str, str]
_GONE: Reply = (404, {"message": "there is no such thing"})


def _filtered(query: Query, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items that have all labels of the filter, and whose name holds that of the filter."""
    filters = json.loads(query.get("filters", "{}"))
    labels = filters.get("label") or ()
    names = filters.get("name") or ()

    def passes(item: dict[str, Any]) -> bool:
        own = item.get("Labels") or {}
        has = all(
            own.get(key) == value if sign else key in own for key, sign, value in (it.partition("=") for it in labels)
        )
        return has and (not names or any(re.search(name, item.get("Name") or item["Names"][0]) for name in names))

    return [item for item in items if passes(item)]


def _listed(facts: dict[str, Any]) -> dict[str, Any]:
    bindings = (facts["HostConfig"].get("PortBindings") or {}).items()
    ports = [
        {
            "IP": one["HostIp"],
            "PublicPort": int(one["HostPort"]),
            "PrivatePort": int(port.partition("/")[0]),
            "Type": "tcp",
        }
        for port, places in bindings
        for one in places or ()
    ]
    return {
        "Id": facts["Id"], "Names": [facts["Name"]], "Labels": facts["Config"]["Labels"], "ImageID": facts["Image"],
        "State": facts["State"]["Status"], "Ports": ports if facts["State"]["Running"] else [],
    }  # fmt: skip


def _images(host: Host, query: Query) -> Reply:
    wanted = json.loads(query.get("filters", "{}")).get("reference") or [""]
    found = {key: [tag for tag in tags if tag.startswith(wanted[0])] for key, tags in host.images.items()}
    return 200, [{"Id": key, "RepoTags": tags, "RepoDigests": []} for key, tags in found.items() if tags]


def _image(host: Host, name: str) -> Reply:
    for key, tags in host.images.items():
        if name == key or name in tags:
            config: dict[str, Any] = {
                "Env": ["PATH=/bin"],
                "Entrypoint": None,
                "WorkingDir": "",
                "User": "",
                "Labels": None,
            }
            return 200, {"Id": key, "RepoTags": tags, "RepoDigests": [], "Os": "linux", "Architecture": "amd64", "Size": 1,
                         "RootFS": {"Type": "layers", "Layers": []}, "Config": config}  # fmt: skip
    return _GONE


def _create(host: Host, query: Query, body: dict[str, Any]) -> Reply:
    name = query.get("name") or f"c{next(_IDS)}"
    if host.container(name):
        return 409, {"message": f'Conflict. The container name "/{name}" is already in use by container "x"'}
    key = f"{next(_IDS):064x}"
    image = next((it for it, tags in host.images.items() if body.get("Image") in (it, *tags)), str(body.get("Image")))
    config: dict[str, Any] = {
        "Labels": body.get("Labels") or {}, "Tty": False, "WorkingDir": body.get("WorkingDir") or "", "Env": [],
        "Image": body.get("Image"), "Entrypoint": None, "User": "",
    }  # fmt: skip
    state = {
        "Status": "created",
        "Running": False,
        "ExitCode": 0,
        "Error": "",
        "StartedAt": _ENDED,
        "FinishedAt": _ENDED,
    }
    host.containers[key] = {
        "Id": key, "Name": f"/{name}", "Image": image, "Created": _CREATED, "RestartCount": 0, "State": state,
        "Config": config, "HostConfig": body.get("HostConfig") or {}, "Mounts": [],
    }  # fmt: skip
    return 201, {"Id": key, "Warnings": []}


def _change(host: Host, facts: dict[str, Any], action: str, query: Query) -> Reply:
    state = facts["State"]
    if action == "start":
        state |= {"Status": "running", "Running": True, "StartedAt": _CREATED}
    elif action in ("stop", "kill"):
        state |= {"Status": "exited", "Running": False, "ExitCode": 143, "FinishedAt": _CREATED}
    elif action == "rename":
        facts["Name"] = f"/{query['name']}"
    return 204, None


def _new_volume(host: Host, body: dict[str, Any]) -> Reply:
    made = {"Name": body["Name"], "Driver": "local", "Labels": body.get("Labels") or {}, "Scope": "local"}
    return 201, host.volumes.setdefault(body["Name"], made)


def _tag(host: Host, name: str, query: Query) -> Reply:
    code, facts = _image(host, name)
    if code == 200 and (tag := f"{query['repo']}:{query.get('tag', 'latest')}") not in host.images[facts["Id"]]:
        host.images[facts["Id"]].append(tag)
    return (201, None) if code == 200 else _GONE


def _pull(host: Host, query: Query) -> Reply:
    name = f"{query['fromImage']}:{query.get('tag') or 'latest'}"
    host.images.setdefault(f"sha256:{abs(hash(name)):064x}", []).append(name)
    return 200, {"status": "Pull complete"}


def answer(host: Host, method: str, target: str, body: bytes) -> tuple[int, Any, str]:
    """Return the status, the value and further headers for a request."""
    parts = urlsplit(target)
    path = unquote(re.sub(r"^/v\d+\.\d+(?=/)", "", parts.path))
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    data = json.loads(body) if body[:1] == b"{" else {}
    if path == "/_ping":
        return 200, "OK", ""
    if name := re.fullmatch(r"/containers/([^/]+)(?:/(\w+))?", path):
        facts = host.container(name[1])
        if method == "GET" and path == "/containers/json":
            return 200, _filtered(query, list(map(_listed, host.containers.values()))), ""
        if method == "POST" and path == "/containers/create":
            return *_create(host, query, data), ""
        if facts is None:
            return *_GONE, ""
        if name[2] == "archive":
            return 200, "\0" * 1024, f"X-Docker-Container-Path-Stat: {_STAT}\r\n"
        if method == "DELETE":
            del host.containers[facts["Id"]]
            return 204, None, ""
        return (200, facts, "") if name[2] == "json" else (*_change(host, facts, name[2] or "", query), "")
    return *_answer_others(host, method, path, query, data), ""


def _answer_others(host: Host, method: str, path: str, query: Query, data: dict[str, Any]) -> Reply:
    exact: dict[tuple[str, str], Callable[[], Reply]] = {
        ("GET", "/version"): lambda: (200, _VERSION),
        ("GET", "/images/json"): lambda: _images(host, query),
        ("POST", "/images/create"): lambda: _pull(host, query),
        ("GET", "/volumes"): lambda: (
            200,
            {"Volumes": _filtered(query, list(host.volumes.values())), "Warnings": None},
        ),
        ("POST", "/volumes/create"): lambda: _new_volume(host, data),
    }
    if found := exact.get((method, path)):
        return found()
    if (name := re.fullmatch(r"/images/(.+)/(json|tag)", path)) is not None:
        return _image(host, name[1]) if name[2] == "json" else _tag(host, name[1], query)
    if (name := re.fullmatch(r"/volumes/(.+)", path)) is not None and name[1] in host.volumes:
        return (200, host.volumes[name[1]]) if method == "GET" else (204, host.volumes.pop(name[1]) and None)
    return _GONE


def command(host: Host, words: list[str]) -> str:
    """Return what `docker` prints for the commands of the peers: `ps`, `run --name NAME IMAGE` and `rm -f NAME`."""
    if words[:1] == ["run"]:
        _, made = _create(host, {"name": words[words.index("--name") + 1]}, {"Image": words[-1]})
        return f"{made.get('Id', '')}\n"
    if words[:1] == ["rm"] and (facts := host.container(words[-1])) is not None:
        del host.containers[facts["Id"]]
    return "CONTAINER ID   IMAGE     COMMAND   CREATED   STATUS    PORTS     NAMES\n"


class Engines:
    """All engines, by the address of their host."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one `docker` command."""
        try:
            address, *words = (await reader.readline()).decode().split()
            host = self._hosts.setdefault(address, Host())
            if words == ["system", "dial-stdio"]:
                await _requests(host, reader, writer)
            else:
                writer.write(command(host, words).encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()


async def _requests(host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests until their end."""
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split(" ", 2)
        length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        if re.search(r"(?i)\r\ntransfer-encoding: *chunked", head):
            while size := int(await reader.readline(), 16):
                await reader.readexactly(size + 2)
            await reader.readline()
        code, value, headers = answer(host, method, target, body)
        data = value.encode() if isinstance(value, str) else b"" if value is None else json.dumps(value).encode()
        kind = "text/plain" if isinstance(value, str) else "application/json"
        lines = f"HTTP/1.1 {code} x\r\nContent-Type: {kind}\r\nApi-Version: 1.43\r\nOSType: linux\r\n{headers}"
        writer.write(f"{lines}Content-Length: {len(data)}\r\n\r\n".encode() + (b"" if method == "HEAD" else data))
        await writer.drain()


async def main(path: str) -> None:
    """Serve at a unix socket until this process is ended."""
    server = await asyncio.start_unix_server(Engines().serve, path, limit=1 << 24, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
