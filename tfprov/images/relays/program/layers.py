"""The layers that a relay has or is receiving."""

from __future__ import annotations  # for every Python that an image may have

import os
import threading
from typing import Any

from tfprov.images.relays.program.connections import PIECE, Broken, Secure


class Layer:
    """A layer that is being received, or is there: an unlinked file, which several threads read while one writes."""

    def __init__(self, digest: str, size: int, directory: str) -> None:
        self.digest, self.size = digest, size
        path = f"{directory}/{digest}"
        self._file = open(path, "x+b", buffering=0)  # noqa: PTH123, SIM115  pathlib takes longer to import than this file
        os.unlink(path)  # noqa: PTH108  it goes with the process, however that ends
        self.have = 0
        self.error = ""
        self._changed = threading.Condition()

    def write(self, data: memoryview) -> None:
        """Append `data`."""
        rest = data
        while rest:
            rest = rest[os.pwrite(self._file.fileno(), rest, self.have + len(data) - len(rest)) :]
        with self._changed:
            self.have += len(data)
            self._changed.notify_all()

    def end(self, error: str) -> None:
        """No more will arrive: who waits for it gets the error."""
        with self._changed:
            self.error = error
            self._changed.notify_all()

    def wait_beyond(self, offset: int) -> int:
        """Return how many bytes there are, once they are more than `offset`; raises Broken when they never will be."""
        with self._changed:
            while self.have <= offset and not self.error:
                self._changed.wait()
            if self.error:
                raise Broken(self.error)
            return self.have

    def send(self, connection: Any, offset: int) -> None:
        """Send the layer from `offset` on, as it arrives."""
        while offset < self.size:
            have = self.wait_beyond(offset)
            while offset < have:
                offset += self._send(connection, offset, have - offset)

    def _send(self, connection: Any, offset: int, size: int) -> int:
        if isinstance(connection, Secure):
            data = os.pread(self._file.fileno(), min(PIECE, size), offset)
            connection.sendall(data)
            return len(data)
        sent: int = connection.sendfile(self._file, offset, size)
        return sent
