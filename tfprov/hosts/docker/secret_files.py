"""Secret environment variables of a container: files on a tmpfs of its host, which its entry point exports.

    /run/tfprov/                       of the host: root's, mode 0700, so that no other user of the host gets further
    /run/tfprov/tfprov-lab-worker-0/   the directory that the container sees as /run/secrets/tfprov, read-only
        NAME                           the value of a variable, mode 0400, of the user that the container runs as
        .environment                   all of them as a shell reads them

A tmpfs of the container itself would be empty after each restart by the engine's own policy. Files are put there through
a container that is never started: the login needs no right on the host but that to use its engine.
"""

import contextlib
import io
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import docker

from tfprov.errors import HostError
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker.engine import Engine

DIRECTORY = "/run/secrets/tfprov"
"""Where a container finds its secrets."""
_ON_HOST = "/run/tfprov"
"""Only root may write to /run, so that nobody can prepare what the engine, which is root, would follow."""
_LABEL = "tfprov.secrets"
_MOST = 1024 * 1024
"""Bytes that are read of an image's list of users."""
_LAST_USER = 2**32 - 2
"""The greatest number of a user that Linux has; the one above it means none."""
_LOST = 78
"""The exit code, EX_CONFIG, of a task whose secrets are not there."""
_SHELL = "/bin/sh"
_LOST_SAYS = "tfprov: the secrets of this task are not in {} any more, as after a restart of its host: run `tfprov up`"
_IN_SHELL = """[ -r {directory}/.environment ] || {{ echo {message} >&2; exit {code}; }}
. {directory}/.environment && exec "$@"
"""
_IN_PYTHON = """import os, sys
try: names = [name for name in os.listdir({directory!r}) if name != '.environment']
except OSError: names = []
if not names: sys.exit(print({message!r}, file=sys.stderr) or {code})
for name in names:
    with open(os.path.join({directory!r}, name), 'rb') as file: os.environb[name.encode()] = file.read()
try: os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error: sys.exit(print(sys.argv[1] + ': ' + error.strerror, file=sys.stderr) or 127)
"""


def in_shell(directory: str = DIRECTORY) -> list[str]:
    """Return the command that runs the one behind it with the secrets in `directory`."""
    message = shlex.quote(_LOST_SAYS.format(directory))
    return [_SHELL, "-c", _IN_SHELL.format(directory=shlex.quote(directory), message=message, code=_LOST), "tfprov"]


def in_python(python: str, directory: str = DIRECTORY) -> list[str]:
    """Return the same for an image without a shell."""
    program = _IN_PYTHON.format(directory=directory, message=_LOST_SAYS.format(directory), code=_LOST)
    return [python, "-I", "-S", "-c", program]


def bind(container: str) -> str:
    """Return the mount that shows a container, by its name, its secrets; `Z` matters under SELinux alone."""
    return f"{_ON_HOST}/{container}:{DIRECTORY}:ro,Z"


def has_secrets(facts: Mapping[str, Any]) -> bool:
    """Whether the container that `facts`, the answer to an inspect, describes has secrets."""
    return any(mount.get("Destination") == DIRECTORY for mount in facts.get("Mounts") or ())


def with_secrets(facts: Mapping[str, Any], argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in the container that `facts` describe, with its secrets as its task has them."""
    return [*(facts["Config"].get("Entrypoint") or ()), *argv] if has_secrets(facts) else list(argv)


def place(  # noqa: PLR0913, PLR0917  one container, seen from all sides
    engine: Engine,
    container: str,
    image: str,
    argv: Sequence[str],
    values: Mapping[str, str],
    user: str | None = None,
) -> list[str]:
    """Put `values` where the container called `container` will find them; return its entry point.

    `argv` is what it runs, as `user`, by default the one that its image names. Raises HostError, and what the SDK raises.
    """
    with _beside(engine, container, image) as made:
        entry = _entry(engine, made, container, argv)
        user = user or engine.api.inspect_container(made)["Config"].get("User") or ""
        engine.api.put_archive(made, "/", _archive(container, values, _owner(engine, made, user)))
    return entry


def forget(engine: Engine, container: str, image: str) -> None:
    """Remove the secrets of a container that does not run: an empty file takes the place of their directory.

    Where somebody has removed its image, any other one will do, because nothing of it is started. Where there is none at
    all, they stay until the host is started again: the container must be removable all the same.
    """
    with contextlib.suppress(docker.errors.ImageNotFound):
        return _forget(engine, container, image)
    for other in engine.api.images()[:1]:
        _forget(engine, container, str(other["Id"]))
    return None


def _forget(engine: Engine, container: str, image: str) -> None:
    with _beside(engine, container, image) as made:
        engine.api.put_archive(made, "/", _tar([_top(), (_info(f"{_ON_HOST}/{container}", 0o400, 0), b"")]))


@contextlib.contextmanager
def _beside(engine: Engine, container: str, image: str) -> Iterator[str]:
    """Have a container that sees the secrets of its host and is never started; what a killed run left is removed."""
    api = engine.api
    for left in api.containers(all=True, filters={"label": f"{_LABEL}={container}"}):
        with contextlib.suppress(docker.errors.NotFound):
            api.remove_container(left["Id"], force=True)
    made: str = api.create_container(
        image,
        entrypoint=[],
        command=["true"],
        labels={_LABEL: container},
        host_config=api.create_host_config(binds=[f"{_ON_HOST}:{_ON_HOST}"], network_mode="none", cap_drop=["ALL"]),
    )["Id"]
    try:
        yield made
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            api.remove_container(made, force=True)


def _entry(engine: Engine, made: str, container: str, argv: Sequence[str]) -> list[str]:
    """Return what exports the secrets before it becomes the program: a shell where there is one, else the task's Python."""
    if docker_files.exists(engine, made, _SHELL):
        return in_shell()
    if PurePosixPath(argv[0]).name.startswith("python"):
        return in_python(argv[0])
    what = (
        f"{container}: its image has no {_SHELL} and its command is no Python, one of which must bring it its secrets"
    )
    raise HostError(
        engine.host, what, "add a shell to the image, or list the variables that are no secrets in `public_env`"
    )


def _owner(engine: Engine, made: str, user: str) -> int:
    """Return the number of the user that a container runs as: `1000`, `trainer` or `trainer:group`."""
    name = user.partition(":")[0]
    if (number := _number(name or "0")) is not None:
        return number
    with docker_files.read(engine, {"Id": made}, "/etc/passwd") as file:
        lines = file.read(_MOST).decode("utf-8", "replace").splitlines()
    for line in lines:
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == name and (number := _number(fields[2])) is not None:
            return number
    raise HostError(engine.host, f"the image has no user `{name}` in its /etc/passwd", "correct its USER, or `user`")


def _number(text: str) -> int | None:
    """Return a user's number; None where `text` is none: an image may say anything, such as `²` or a million digits."""
    return int(text) if re.fullmatch("[0-9]{1,10}", text) and int(text) <= _LAST_USER else None


def contents(values: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that hold these variables, by their names."""
    sourced = "".join(f"export {name}={_quoted(value)}\n" for name, value in values.items())
    texts = {**values, ".environment": sourced}
    return {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}


def _archive(container: str, values: Mapping[str, str], owner: int) -> bytes:
    top = f"{_ON_HOST}/{container}"
    directory = _info(top, 0o500, owner)
    directory.type = tarfile.DIRTYPE
    # An empty file first: it takes the place of the directory of an earlier container, whose variables must not stay.
    files = [(_info(f"{top}/{name}", 0o400, owner), value) for name, value in contents(values).items()]
    return _tar([_top(), (_info(top, 0o400, 0), b""), (directory, b""), *files])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _top() -> tuple[tarfile.TarInfo, bytes]:
    info = _info(_ON_HOST, 0o700, 0)
    info.type = tarfile.DIRTYPE
    return info, b""


def _info(path: str, mode: int, owner: int) -> tarfile.TarInfo:
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
