"""Runs the probe of a remote directory in a temporary container of a task's image, with its secrets on standard input."""

import secrets
from collections.abc import Sequence

from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.labels import container_name, home_variable
from tfprov.hosts.docker.reachability_probe import temporary
from tfprov.model.state import Container

_LIMIT = 1 << 20
_MEMORY, _PIDS = 1 << 30, 256
_SILENCE = 180.0
"""Seconds without output after which a probe has failed."""


def probe_in_container(
    engine: Engine, container: Container, cluster: str, argv: Sequence[str], request: bytes
) -> bytes:
    """Run `argv` with `request` on its standard input, and return its output. Raises HostError."""
    options = container.docker
    assert options is not None, "a container of the docker runtime has an image"
    public = {name: value for name, value in container.env.items() if name not in container.secret}
    output = b""
    with engine.errors():
        api = engine.api
        created: str = api.create_container(
            options.image,
            entrypoint=[],
            command=list(argv),
            environment={**home_variable(options), **public},
            user=options.user,
            name=f"{container_name(cluster, container.task.name)}-probe-{secrets.token_hex(4)}",
            labels=dict(temporary(cluster)),
            stdin_open=True,
            host_config=api.create_host_config(
                cap_drop=["ALL"], security_opt=["no-new-privileges"], pids_limit=_PIDS, mem_limit=_MEMORY
            ),
        )["Id"]
        try:
            attached = api.attach_socket(created, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            try:
                api.start(created)
                docker_exec.get_sender(attached)(request)
                for _, piece in docker_exec.read_attached(attached, _SILENCE):
                    output = (output + piece)[-_LIMIT:]
            finally:
                engine.close_attached(attached)
        finally:
            api.remove_container(created, force=True, v=True)
    return output
