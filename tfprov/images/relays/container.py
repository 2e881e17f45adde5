"""The container of a relay, through which hosts get the layers of an image from each other."""

import io
import tarfile
from collections.abc import Mapping
from contextlib import suppress

from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.exec import remove_ended
from tfprov.hosts.docker.reachability_probe import temporary, temporary_host_config


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
            # An engine that maps users shares no network without `userns_mode`.
            host_config=temporary_host_config(api, network_mode="host", userns_mode="host", pids_limit=512),
        )["Id"]
        try:
            api.put_archive(created, directory, _archive(files, user))
            api.start(created)
        except BaseException:
            with suppress(HostError):
                remove_relay(engine, created)
            raise
    return created


def is_running(engine: Engine, container: str) -> bool:
    """Whether the container runs. Raises HostError."""
    with engine.errors():
        return bool(engine.api.containers(filters={"id": container}))


def remove_relay(engine: Engine, container: str) -> None:
    """Remove the container, and wait until it is gone: its image cannot be removed before. Raises HostError.

    The engine may be removing it already, as it does with one that has ended.
    """
    with engine.errors():
        remove_ended(engine, container)


def _archive(files: Mapping[str, bytes], user: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.gid = len(data), 0o400, user, user
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
