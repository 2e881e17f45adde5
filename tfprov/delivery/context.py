"""What an image is built from: a directory with a Dockerfile, as one deterministic archive."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from tfprov.delivery.code import archived, check_directory
from tfprov.errors import InvalidInput, Position, Problem, shown

KEY = "image.build"
"""The setting that names the directory."""
OURS = ".tfprov"
"""In the context: what a build gets to know of this machine. It is put there on the way, and is not read from disk."""


@dataclass(frozen=True)
class BuildContext:
    """A packed build context; `archive` is an uncompressed tar, `digest` its sha256, `dockerfile` a name in it."""

    source: str
    digest: str
    archive: bytes
    dockerfile: str


def pack_context(directory: Path, at: Position, dockerfile: str = "Dockerfile") -> BuildContext:
    """Read `directory` as code is read; the Dockerfile is there even where .dockerignore names it.

    Directories without a file are left out. InvalidInput, at `at`, when there is no such directory or Dockerfile, or
    more than 512 MiB.
    """
    check_directory(directory, at, KEY, "the Dockerfile")
    name = os.path.normpath(dockerfile)
    if os.path.isabs(name) or name.split("/")[0] == ".." or not (directory / name).is_file():  # noqa: PTH117 a mere name
        fix = "add it, or name another file of that directory with `image.dockerfile`"
        raise InvalidInput([Problem(at, f"`{KEY}`: {directory} has no {shown(dockerfile)}", fix)])
    archive = archived(directory, at, KEY, left_out=(OURS,), kept=(name,))
    return BuildContext(str(directory), f"sha256:{hashlib.sha256(archive).hexdigest()}", archive, name)
