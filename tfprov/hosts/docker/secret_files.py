"""Secret environment variables of a container: files on a tmpfs of its host, which its entry point exports.

    /run/tfprov/                       on the host: root's, mode 0700, closed to other users of the host
    /run/tfprov/tfprov-lab-worker-0/   mounted read-only into the container as /run/secrets/tfprov
        NAME                           the value of a variable, mode 0400, owned by the container's user
        .environment                   all variables as a shell script

A tmpfs of the container itself would be empty after each restart by the engine. Files are written through a helper
container that is never started: the login needs no privilege on the host except using its engine.
"""

import contextlib
import io
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker

DIRECTORY = "/run/secrets/tfprov"
"""The directory of the secrets in a container."""
_ON_HOST = "/run/tfprov"
"""Only root may write to /run, so that nobody can prepare a link that the engine, as root, would follow."""
_LABEL = "tfprov.secrets"
_MAX_PASSWD_SIZE = 1024 * 1024
"""Maximum bytes read of an image's /etc/passwd."""
_MAX_USER_ID = 2**32 - 2
"""The greatest user id of Linux; the next one means none."""
_MISSING_EXIT_CODE = 78
"""The exit code of a task without its secrets: EX_CONFIG."""
_SHELL = "/bin/sh"
_MISSING_MESSAGE = (
    "tfprov: the secrets of this task are not in {} any more, as after a restart of its host: run `tfprov up`"
)
_SHELL_SCRIPT = """[ -r {directory}/.environment ] || {{ echo {message} >&2; exit {code}; }}
. {directory}/.environment && exec "$@"
"""
_PYTHON_PROGRAM = """import os, sys
try: names = [name for name in os.listdir({directory!r}) if name != '.environment']
except OSError: names = []
if not names: sys.exit(print({message!r}, file=sys.stderr) or {code})
for name in names:
    with open(os.path.join({directory!r}, name), 'rb') as file: os.environb[name.encode()] = file.read()
try: os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error: sys.exit(print(sys.argv[1] + ': ' + error.strerror, file=sys.stderr) or 127)
"""


def shell_entrypoint(directory: str = DIRECTORY) -> list[str]:
    """Return the entry point that runs its arguments with the secrets in `directory`, for a shell."""
    message = shlex.quote(_MISSING_MESSAGE.format(directory))
    return [
        _SHELL,
        "-c",
        _SHELL_SCRIPT.format(directory=shlex.quote(directory), message=message, code=_MISSING_EXIT_CODE),
        "tfprov",
    ]


def python_entrypoint(python: str, directory: str = DIRECTORY) -> list[str]:
    """Return the same entry point for an image without a shell."""
    program = _PYTHON_PROGRAM.format(
        directory=directory, message=_MISSING_MESSAGE.format(directory), code=_MISSING_EXIT_CODE
    )
    return [python, "-I", "-S", "-c", program]


def bind_mount(container: str) -> str:
    """Return the bind mount of a container's secrets; `Z` matters only with SELinux."""
    return f"{_ON_HOST}/{container}:{DIRECTORY}:ro,Z"


def has_secrets(facts: Mapping[str, Any]) -> bool:
    """Whether an inspected container has secrets."""
    return any(mount.get("Destination") == DIRECTORY for mount in facts.get("Mounts") or ())


def with_secrets(facts: Mapping[str, Any], argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in an inspected container with the secrets of its task."""
    return [*(facts["Config"].get("Entrypoint") or ()), *argv] if has_secrets(facts) else list(argv)


def put_secrets(  # noqa: PLR0913, PLR0917  all aspects of a container
    engine: Engine,
    container: str,
    image: str,
    argv: Sequence[str],
    values: Mapping[str, str],
    user: str | None = None,
) -> list[str]:
    """Store the secrets `values` of the container named `container`; return its entry point.

    It runs `argv` as `user`, by default the image's user. Raises HostError and the SDK's errors.
    """
    with _helper_container(engine, container, image) as helper:
        entry = _choose_entrypoint(engine, helper, container, argv)
        user = user or engine.api.inspect_container(helper)["Config"].get("User") or ""
        engine.api.put_archive(helper, "/", _archive(container, values, _user_id(engine, helper, user)))
    return entry


def remove_secrets(engine: Engine, container: str, image: str) -> None:
    """Remove the secrets of a stopped container, replacing their directory by an empty file.

    If its image has been removed, any other serves, as the helper container is never started. Without any image the
    secrets stay until the host restarts, so that the container can still be removed.
    """
    with contextlib.suppress(docker.errors.ImageNotFound):
        return _remove_secrets(engine, container, image)
    for other in engine.api.images()[:1]:
        _remove_secrets(engine, container, str(other["Id"]))
    return None


def _remove_secrets(engine: Engine, container: str, image: str) -> None:
    with _helper_container(engine, container, image) as helper:
        engine.api.put_archive(
            helper, "/", _tar([_host_directory(), (_tar_info(f"{_ON_HOST}/{container}", 0o400, 0), b"")])
        )


@contextlib.contextmanager
def _helper_container(engine: Engine, container: str, image: str) -> Iterator[str]:
    """Create a container that mounts the host's secrets and is never started; remove leftovers of a killed run."""
    api = engine.api
    for leftover in api.containers(all=True, filters={"label": f"{_LABEL}={container}"}):
        with contextlib.suppress(docker.errors.NotFound):
            api.remove_container(leftover["Id"], force=True)
    helper: str = api.create_container(
        image,
        entrypoint=[],
        command=["true"],
        labels={_LABEL: container},
        host_config=api.create_host_config(binds=[f"{_ON_HOST}:{_ON_HOST}"], network_mode="none", cap_drop=["ALL"]),
    )["Id"]
    try:
        yield helper
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            api.remove_container(helper, force=True)


def _choose_entrypoint(engine: Engine, helper: str, container: str, argv: Sequence[str]) -> list[str]:
    """Return the entry point that exports the secrets: by a shell if the image has one, else by the task's Python."""
    if docker_files.exists(engine, helper, _SHELL):
        return shell_entrypoint()
    if PurePosixPath(argv[0]).name.startswith("python"):
        return python_entrypoint(argv[0])
    problem = f"{container}: exporting its secrets needs {_SHELL} in its image, or Python as its command"
    raise HostError(
        engine.host, problem, "add a shell to the image, or list variables that are not secret in `public_env`"
    )


def _user_id(engine: Engine, helper: str, user: str) -> int:
    """Return the id of a container's user, written as `1000`, `trainer` or `trainer:group`."""
    name = user.partition(":")[0]
    if (number := _parse_user_id(name or "0")) is not None:
        return number
    with docker_files.open_file(engine, {"Id": helper}, "/etc/passwd") as file:
        lines = file.read(_MAX_PASSWD_SIZE).decode("utf-8", "replace").splitlines()
    for line in lines:
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == name and (number := _parse_user_id(fields[2])) is not None:
            return number
    raise HostError(engine.host, f"the image has no user `{name}` in its /etc/passwd", "correct its USER, or `user`")


def _parse_user_id(text: str) -> int | None:
    """Return a user id; None for invalid text: an image may contain `²` or a million digits."""
    return int(text) if re.fullmatch("[0-9]{1,10}", text) and int(text) <= _MAX_USER_ID else None


def secret_file_contents(values: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files with these variables, by name."""
    script = "".join(f"export {name}={_quote(value)}\n" for name, value in values.items())
    texts = {**values, ".environment": script}
    return {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}


def _archive(container: str, values: Mapping[str, str], owner: int) -> bytes:
    top = f"{_ON_HOST}/{container}"
    directory = _tar_info(top, 0o500, owner)
    directory.type = tarfile.DIRTYPE
    # The empty file first replaces the directory of an earlier container with its variables.
    files = [(_tar_info(f"{top}/{name}", 0o400, owner), value) for name, value in secret_file_contents(values).items()]
    return _tar([_host_directory(), (_tar_info(top, 0o400, 0), b""), (directory, b""), *files])


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _host_directory() -> tuple[tarfile.TarInfo, bytes]:
    info = _tar_info(_ON_HOST, 0o700, 0)
    info.type = tarfile.DIRTYPE
    return info, b""


def _tar_info(path: str, mode: int, owner: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.strip("/"))
    info.mode, info.uid, info.gid = mode, owner, owner
    return info


def _tar(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
