"""Running a program inside a container, with its connection closed afterwards."""

from collections.abc import Callable, Sequence
from typing import Any

import docker
from docker.utils.socket import frames_iter

Output = Callable[[int, bytes], object]
"""Takes what the program prints: 1 or 2, as its file descriptor, and the bytes."""


def run(api: docker.APIClient, container: str, argv: Sequence[str], output: Output) -> int:
    """Run `argv` in a container that runs; return its exit code.

    The SDK's own reading leaves the connection to the garbage collector, which is once a second while a training is
    watched; asked for the socket, it hands out the response too.
    """
    made = api.exec_create(container, list(argv))
    stream: Any = api.exec_start(made["Id"], socket=True)
    try:
        for descriptor, data in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]
            output(descriptor, data)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public way to it
    code: int = api.exec_inspect(made["Id"])["ExitCode"]
    return code
