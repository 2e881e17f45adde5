"""Running a program in a container; beside one that has ended: in another one of its image, which sees its volumes.

An engine's archive would bring every byte of a directory only to say what is in it, holes and all.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import docker

from tfprov.hosts import bounds, docker_exec
from tfprov.hosts.engine_api import Engine


def pieces(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    """Yield what `argv` prints, run in a container, or beside one that has ended; nothing where it cannot be run.

    Whether the output is whole, the output itself must say.
    """
    with engine.errors():
        try:
            yield from _within(engine, facts["Id"], argv) if facts["State"]["Running"] else _beside(engine, facts, argv)
        except docker.errors.APIError:  # its image has no such program
            return


def _within(engine: Engine, container: str, argv: Sequence[str]) -> Iterator[bytes]:
    made = engine.api.exec_create(container, list(argv), stderr=False)
    stream: Any = engine.api.exec_start(made["Id"], socket=True)
    try:
        yield from (data for descriptor, data in docker_exec.frames(stream, bounds.ACT) if descriptor == 1)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public way to it


def _beside(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    with _container(engine, facts, argv) as container:
        attached: Any = engine.api.attach_socket(container, params={"stdout": 1, "stream": 1})
        try:
            engine.api.start(container)
            yield from (data for _, data in docker_exec.frames(attached, bounds.ACT))
        finally:
            engine.hang_up(attached)


@contextmanager
def _container(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[str]:
    """Have a container that only reads, and removes itself at its end, should this be cut off."""
    api = engine.api
    made = api.create_container(
        image=facts["Image"],
        command=list(argv),
        entrypoint=[],
        user="0",
        host_config=api.create_host_config(
            volumes_from=[f"{facts['Id']}:ro"],
            network_mode="none",
            auto_remove=True,
            log_config=docker.types.LogConfig(type="none"),
            security_opt=["no-new-privileges"],
        ),
    )
    try:
        yield made["Id"]
    finally:
        with suppress(docker.errors.APIError):  # it has removed itself
            api.remove_container(made["Id"], force=True)
