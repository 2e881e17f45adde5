"""The process that stands for the engines of all simulated hosts.

    python -m bench.simulator.server DIRECTORY FAULTS [ADDRESS ...]

It listens at DIRECTORY/ADDRESS.sock for the host with each ADDRESS, and then at DIRECTORY/docker for the command `docker`
of all of them: that sends a line with the host's address and its arguments; with `system dial-stdio` the connection then is
that of an engine. FAULTS is JSON: a `Fault` by the host's address.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import api
from .containers import Host, has_labels
from .faults import ERROR, Fault

CLIENT = """#!/usr/bin/perl
# The command `docker` of a simulated host: copies between its standard streams and the process of all engines.
use Socket;
$SIG{{PIPE}} = "IGNORE";
my $refused = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\\n";
socket(S, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
connect(S, sockaddr_un('{socket}')) or die "connect: $!";
syswrite(S, (split / /, $ENV{{SSH_CONNECTION}})[2] . " @ARGV\\n");
shutdown(S, 1) unless "@ARGV" eq "system dial-stdio";
my ($to, $from, $data, $answered) = ("@ARGV" eq "system dial-stdio", 1, "", 0);
while ($from) {{
    my $read = "";
    vec($read, fileno(S), 1) = 1;
    vec($read, 0, 1) = 1 if $to;
    select($read, undef, undef, undef);
    if ($to && vec($read, 0, 1)) {{
        sysread(STDIN, $data, 65536) ? syswrite(S, $data) : do {{ $to = 0; shutdown(S, 1); }};
    }}
    if (vec($read, fileno(S), 1)) {{
        sysread(S, $data, 65536) ? do {{ $answered = 1; syswrite(STDOUT, $data) }} : do {{ $from = 0; }};
    }}
}}
do {{ print STDERR $refused; exit 1 }} unless $answered;
"""
"""A program for perl, which each Debian has: it starts in a third of Python's time."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Engines:
    """All engines, by the address of their host."""

    def __init__(self, faults: Mapping[str, Fault]) -> None:
        self._hosts: dict[str, Host] = {}
        self._faults = faults

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one `docker` command."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            address, *words = (await reader.readline()).decode().split()
            if words == ["system", "dial-stdio"]:
                await self._connected(address, (reader, writer))
            elif self._faults.get(address) not in (Fault.NO_ENGINE, Fault.HANGS):
                writer.write(api.command(self._host(address), words).encode())
            await writer.drain()
        writer.close()

    async def serve_socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to the socket of an engine."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            await self._connected(Path(writer.get_extra_info("sockname")).stem, (reader, writer))
            await writer.drain()
        writer.close()

    async def _connected(self, address: str, streams: Streams) -> None:
        fault = self._faults.get(address)
        if fault is Fault.HANGS:
            await streams[0].read()
        elif fault is not Fault.NO_ENGINE:
            await _requests(self._host(address), streams, fault)

    def _host(self, address: str) -> Host:
        return self._hosts.setdefault(address, Host(address))


async def _requests(host: Host, streams: Streams, fault: Fault | None) -> None:
    """Answer requests until their end."""
    reader, writer = streams
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split(" ", 2)
        body = await _body(reader, head)
        request = api.Request.parse(method, target, body)
        if fault is Fault.ERROR_500:
            code, value, headers = 500, ERROR, ""
        elif request.path == "/events":
            return await _events(host, streams, json.loads(request.query["filters"]))
        elif (name := re.fullmatch(r"/exec/(\w+)/start", request.path)) is not None and name[1] in host.executions:
            writer.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            writer.write(await api.execute(host, name[1]))
            return None
        else:
            code, value, headers = await api.answer(host, request)
        writer.write(_response(method, code, value, headers))
        await writer.drain()


async def _body(reader: asyncio.StreamReader, head: str) -> bytes:
    length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
    if re.search(r"(?i)\r\ntransfer-encoding: *chunked", head):
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return await reader.readexactly(int(length[1])) if length else b""


def _response(method: str, code: int, value: Any, headers: str) -> bytes:
    data = value.encode() if isinstance(value, str) else b"" if value is None else json.dumps(value).encode()
    kind = "text/plain" if isinstance(value, str) else "application/json"
    lines = f"HTTP/1.1 {code} x\r\nContent-Type: {kind}\r\nApi-Version: 1.43\r\nOSType: linux\r\n{headers}"
    return f"{lines}Content-Length: {len(data)}\r\n\r\n".encode() + (b"" if method == "HEAD" else data)


async def _events(host: Host, streams: Streams, filters: Mapping[str, list[str]]) -> None:
    """Report changes of containers until the client closes its connection."""
    reader, writer = streams
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    follower = _follower(writer, filters)
    host.followers.add(follower)
    try:
        await reader.read()
    finally:
        host.followers.discard(follower)


def _follower(writer: asyncio.StreamWriter, filters: Mapping[str, list[str]]) -> Callable[[str, dict[str, Any]], None]:
    def report(action: str, facts: dict[str, Any]) -> None:
        if action in filters["event"] and has_labels(facts["Config"], filters.get("label") or []):
            line = json.dumps({"Type": "container", "Action": action, "Actor": {"ID": facts["Id"]}}) + "\n"
            writer.write(f"{len(line):x}\r\n{line}\r\n".encode())

    return report


async def main(directory: Path, faults: Mapping[str, Fault], addresses: Sequence[str]) -> None:
    """Serve at the sockets until this process is ended."""
    engines = Engines(faults)
    for address in addresses:
        if faults.get(address) is not Fault.NO_ENGINE:
            path = directory / f"{address}.sock"
            await asyncio.start_unix_server(engines.serve_socket, path, limit=1 << 24)
    server = await asyncio.start_unix_server(engines.serve, directory / "docker", limit=1 << 24, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    faults = {address: Fault(fault) for address, fault in json.loads(sys.argv[2]).items()}
    asyncio.run(main(Path(sys.argv[1]), faults, sys.argv[3:]))
