"""The container of a relay, through which hosts get the layers of an image from each other."""

import io
import tarfile
from collections.abc import Mapping

import docker

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.reachability_probe import temporary


def start_relay(  # noqa: PLR0913, PLR0917
    engine: Engine, image: str, cluster: str, directory: str, files: Mapping[str, bytes], user: int
) -> str:
    """Start a relay from `image` with `files` in `directory`, which only `user` may read; return the container's id.

    It shares the host's network, because its engine and the controller are reached through the loopback, and has no
    privileges. It has the labels of a temporary container, and is removed when it ends. Raises HostError.
    """
    with engine.errors():
        api = engine.api
        created: str = api.create_container(
            image,
            labels=dict(temporary(cluster)),
            host_config=api.create_host_config(
                network_mode="host",
                userns_mode="host",  # an engine that maps users shares no network otherwise
                auto_remove=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                pids_limit=512,
                log_config=docker.types.LogConfig(type="none"),
            ),
        )["Id"]
        try:
            api.put_archive(created, directory, _archive(files, user))
            api.start(created)
        except BaseException:
            remove_relay(engine, created)
            raise
    return created


def is_running(engine: Engine, container: str) -> bool:
    """Whether the container runs. Raises HostError for other faults of the engine than its absence."""
    with engine.errors():
        try:
            facts = engine.api.inspect_container(container)
        except docker.errors.NotFound:
            return False
    return bool(facts["State"]["Running"])


def remove_relay(engine: Engine, container: str) -> None:
    """Remove the container, unless it is gone or going. Raises HostError."""
    with engine.errors():
        try:
            engine.api.remove_container(container, force=True, v=True)
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):
                raise


def _archive(files: Mapping[str, bytes], user: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.gid = len(data), 0o400, user, user
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
