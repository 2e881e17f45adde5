"""A slow link to all hosts: a relay in front of their sshd that passes bytes on after a delay, in each direction.

    python -m bench.simulator.link PORT SSHD_PORT SECONDS

It connects to SSHD_PORT at the address at which it was reached, so that sshd still knows which host it is for.
"""

import asyncio
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Copy until the end; what is read meanwhile waits in a queue, so that the delay does not limit the rate."""
    clock = asyncio.get_running_loop().time
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        try:
            while data := await reader.read(1 << 16):
                await pieces.put((clock() + delay, data))
        except ConnectionError:
            pass
        await pieces.put((clock() + delay, b""))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(due - clock())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except (ConnectionError, OSError):
        pass
    finally:
        reading.cancel()


async def main(port: int, sshd_port: int, delay: float) -> None:
    """Relay until this process is ended."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        try:
            their_reader, their_writer = await asyncio.open_connection(address, sshd_port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pass_on(reader, their_writer, delay), _pass_on(their_reader, writer, delay))
        finally:
            their_writer.close()
            writer.close()

    server = await asyncio.start_server(relay, "0.0.0.0", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
