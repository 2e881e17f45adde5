"""The programs of temporary containers: listeners that really listen, and probes that really connect.

An address of the simulated network, 10.x.y.z, is 127.x.y.z on the loopback of this machine.
"""

import asyncio
import json
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_FRAME = struct.Struct(">BxxxL")
_ISOLATED = ["python3", "-I", "-S", "-c"]
_ANYWHERE = "0.0.0.0"
_OUTCOMES = {111: "refused", 113: "no route", 101: "no route", 110: "no answer"}
"""By errno."""


def loopback(address: str) -> str:
    """Return the address on the loopback of an address of the simulated network."""
    return f"127{address[2:]}" if address.startswith("10.") else address


async def listen(host: str, config: dict[str, Any], bindings: dict[str, Any]) -> list[asyncio.Server]:
    """Start what a container listens to that runs LISTEN of `tfprov.hosts.docker.reachability_probe`. Raises OSError.

    A port that is published in all networks is one of the `host` address.
    """
    arguments = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    if arguments[:4] != _ISOLATED:
        return []
    _code, _port, greeting, _life = arguments[4:8]

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(f"{greeting}\n".encode())
            await writer.drain()
        writer.close()

    return [
        await asyncio.start_server(
            greet, host if place["HostIp"] == _ANYWHERE else loopback(place["HostIp"]), int(place["HostPort"])
        )
        for places in bindings.values()
        for place in places or ()
    ]


async def execute(argv: Sequence[str]) -> tuple[int, bytes]:
    """Return the exit code of a program in a container and its output as the engine's frames."""
    if argv[:4] != _ISOLATED or len(argv) != 9:
        return 127, b""
    targets, limit = json.loads(argv[5]), float(argv[6])
    outcomes = await asyncio.gather(*(_probe(address, port, greeting, limit) for address, port, greeting in targets))
    output = f"{json.dumps(outcomes)}\n".encode()
    return 0, _FRAME.pack(1, len(output)) + output


async def _probe(address: str, port: int, greeting: str, limit: float) -> str:
    """Return the outcome of one try; see `tfprov.hosts.docker.reachability_probe.probe`."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(loopback(address), port), limit)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return _OUTCOMES.get(error.errno or 0, f"error: {error}")
    try:
        received = await asyncio.wait_for(reader.read(1000), limit if greeting else 0.5)
    except TimeoutError:
        return "silent" if greeting else "ok"
    except OSError:
        return "closed"
    finally:
        writer.close()
    if not received:
        return "closed"
    return "ok" if not greeting or received.decode().strip() == greeting else "other"
