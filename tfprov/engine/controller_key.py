"""The controller's key: what the hashes of secret values in labels are made with."""

import os
import secrets
from functools import cache
from pathlib import Path

from tfprov.errors import Usage
from tfprov.files import private_directory
from tfprov.paths import state_home
from tfprov.planning.keyed_hash import KeyedHash

_SIZE = 32
"""Bytes of a key."""
_NAME = "secret-hash-key"


def keyed_hash() -> KeyedHash:
    """Return the hashes of this controller; its key is read, or made, with the first secret."""
    return KeyedHash(cache(lambda: controller_key(state_home())))


def controller_key(directory: Path) -> bytes:
    """Return the key in `directory`, which is made once, by whoever comes first. Usage where it cannot be read."""
    path = directory / _NAME
    try:
        if not path.exists():
            _make(path)
        key = _read(path)
    except OSError as error:
        raise Usage(
            f"{path}: {error.strerror}", "the key for the hashes of secrets lies there: make it accessible"
        ) from None
    if len(key) != _SIZE:
        raise Usage(f"{path} is no key of {_SIZE} bytes", "remove it: the next command makes another one")
    return key


def _make(path: Path) -> None:
    private_directory(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(beside)
    except FileExistsError:  # another run has made one meanwhile
        pass
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:  # it was copied, or restored, with other modes
            os.fchmod(descriptor, 0o600)
        return file.read(_SIZE + 1)
