"""Puts files into a container: code, links and directories before it starts, and a user's files while it runs.

A user's files are one archive, which gets its name when it is complete.
"""

import posixpath
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker import archive as docker_archive
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.labels import CODE
from tfprov.model.state import Container

_SPOOLED = 16 * 1024 * 1024
"""Bytes of an archive that are kept in memory; a larger one is a file meanwhile."""
_LOOK_SCRIPT = """id -u; id -g
for path; do
    if [ ! -e "$path" ]; then echo nothing; elif [ ! -d "$path" ]; then echo other
    elif [ -w "$path" ]; then echo directory; else echo locked; fi
done"""
"""Prints the user, its group, and what is at each path: `locked` is a directory to which the user may not write."""
_DIRECTORIES = ("directory", "locked")
_PLACE_SCRIPT = """[ ! -d "$2" ] && mv -f "$1" "$2" && exit
rm -rf "$1"; exit 73"""
"""Gives what was copied its name."""


def make_writable(engine: Engine, container: Container, volume: str, image: str, container_id: str) -> None:
    """Make the checkpoint directory of a created container writable for any user; a new volume belongs to root.

    In a container with a read-only file system the engine can put files only into volumes, and cannot change the
    volumes' own mode. For these, a helper container that is never started mounts the volume.
    """
    archive, directory = docker_archive.writable_directory(container.checkpoint_dir), container.checkpoint_dir
    if container.docker is None or not container.docker.read_only:
        engine.api.put_archive(container_id, "/", archive)
        return
    mounts = [docker.types.Mount(directory, volume, type="volume")]
    config = engine.api.create_host_config(mounts=mounts, network_mode="none", cap_drop=["ALL"])
    options: dict[str, Any] = {"entrypoint": [], "command": ["true"], "labels": {docker_exec.HELPER: ""}}
    helper: str = engine.api.create_container(image, host_config=config, **options)["Id"]
    try:
        engine.api.put_archive(helper, "/", archive)
    finally:
        engine.api.remove_container(helper, force=True)


def put_code(engine: Engine, container_id: str, code: bytes, *, read_only: bool) -> None:
    """Put the archive `code`, with names below /code, into a container; into its volume if it is read-only."""
    engine.api.put_archive(
        container_id, CODE if read_only else "/", docker_archive.subtree(code, CODE) if read_only else code
    )


def create_link(engine: Engine, container: str, name: str, target: str) -> None:
    """Create the link `name`, below the working directory of a container, to its directory `target`."""
    with engine.errors():
        facts = engine.api.inspect_container(container)
    path = posixpath.join(facts["Config"].get("WorkingDir") or "/", name)
    if docker_files.exists(engine, container, path):
        fix = "choose another name for `checkpoints.link`, or remove it from the image"
        raise HostError(engine.host, f"the image has {path} already", fix)
    with engine.errors():
        in_code = facts["HostConfig"].get("ReadonlyRootfs") and path.startswith(f"{CODE}/")
        root = CODE if in_code else "/"
        engine.api.put_archive(container, root, docker_archive.symlink(path.removeprefix(root), target))


def put_into(engine: Engine, facts: Mapping[str, Any], path: str, source: Path) -> str:
    """Copy `source` to `path` of an inspected container; see Runtime.put."""
    if not facts["State"]["Running"]:
        raise HostError(engine.host, "files are copied only into a task that runs", "start it with `tfprov up`")
    container: str = facts["Id"]
    target = posixpath.normpath(posixpath.join(facts["Config"].get("WorkingDir") or "/", path))
    inside = posixpath.join(target, source.name)
    user, group, kind, kind_above, kind_inside = _look(engine, container, target, posixpath.dirname(target), inside)
    if kind in _DIRECTORIES:
        target, kind_above = inside, kind
        if kind_inside in _DIRECTORIES:
            raise HostError(engine.host, f"there is a directory at {target} already", "remove it first")
    elif path.endswith("/") and source.is_file():
        raise HostError(engine.host, f"no such directory in the container: {path}", "make it first")
    directory, name = posixpath.split(target)
    if kind_above not in _DIRECTORIES:
        raise HostError(engine.host, f"no such directory in the container: {directory}", "make it first")
    if kind_above == "locked":  # the engine may write there, and its user could neither rename nor remove the copy
        raise HostError(engine.host, f"the container's user may not write to {directory}", "choose another directory")
    part = f".{name}.tfprov-part"
    remove_part = ["rm", "-rf", posixpath.join(directory, part)]
    with tempfile.SpooledTemporaryFile(_SPOOLED) as archive:
        _pack(archive, source, part, (int(user), int(group)))
        archive.seek(0)
        try:
            docker_exec.run_program(engine, container, remove_part)  # what a copy left that lost its connection
            _unpack(engine, container, directory, archive)
            _give_name(engine, container, posixpath.join(directory, part), target)
        except BaseException:  # also Ctrl-C: a part takes room
            with suppress(HostError):
                docker_exec.run_program(engine, container, remove_part)
            raise
    return target


def _unpack(engine: Engine, container: str, directory: str, archive: IO[bytes]) -> None:
    with engine.errors():
        is_there = engine.api.put_archive(container, directory, _chunks(archive))
    if not is_there:
        raise HostError(engine.host, f"nothing was copied to {directory}")


def _give_name(engine: Engine, container: str, part: str, target: str) -> None:
    argv = ["sh", "-c", _PLACE_SCRIPT, "sh", part, target]
    with engine.errors():
        code, _, errors = docker_exec.run_program(engine, container, argv)
    if code:
        reason = errors.decode("utf-8", "replace").strip() or f"`mv` in the container ended with exit code {code}"
        raise HostError(
            engine.host, f"{target} was not copied: {reason}", "choose a directory that its user may write to"
        )
    if code is None:
        raise HostError(engine.host, f"{target} was not copied whole: its image has no shell, which gives it its name")


def _look(engine: Engine, container: str, *paths: str) -> list[str]:
    with engine.errors():
        code, output, _ = docker_exec.run_program(engine, container, ["sh", "-c", _LOOK_SCRIPT, "sh", *paths])
    words = output.decode("utf-8", "replace").split()
    if code != 0 or len(words) != 2 + len(paths) or not (words[0] + words[1]).isdecimal():
        raise HostError(engine.host, "its image has no shell, which looks what is at a path", "mount the files instead")
    return words


def _pack(archive: IO[bytes], source: Path, name: str, owner: tuple[int, int]) -> None:
    """Write `source` as an archive of files of `owner`; links and what is no file are left out."""
    sizes: dict[str, int] = {}

    def without_links(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid, member.gid = owner
        member.uname = member.gname = ""
        member.mode &= 0o777
        if member.islnk():  # another name of a file: its content comes again
            member.type, member.size, member.linkname = tarfile.REGTYPE, sizes[member.linkname], ""
        sizes[member.name] = member.size
        return member if member.isreg() or member.isdir() else None

    with tarfile.open(fileobj=archive, mode="w", dereference=False) as files:
        files.add(source.resolve(), arcname=name, filter=without_links)


def _chunks(archive: IO[bytes]) -> Iterator[bytes]:
    while data := archive.read(bounds.CHUNK):
        yield data
