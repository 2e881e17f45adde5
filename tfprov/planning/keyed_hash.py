"""Hashes that stand for secret values in specs: nobody without the key can try values out."""

import hashlib
import hmac
from collections.abc import Callable

_SCHEME = "hmac-sha256"
_ID_DIGITS = 16


class KeyedHash:
    """Hashes with the key that `key` returns, which is asked for once a secret has to be hashed."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def of(self, cluster: str, name: str, value: str) -> str:
        """Return `hmac-sha256:KEY:HASH` for an environment variable of a cluster; `KEY` identifies the key."""
        key = self._key()
        identity = hmac.digest(key, b"identity", "sha256").hex()[:_ID_DIGITS]
        message = b"\0".join(text.encode("utf-8", "surrogateescape") for text in (cluster, name, value))
        return f"{_SCHEME}:{identity}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


def of_other_keys(one: object, other: object) -> bool:
    """Whether both are hashes of `KeyedHash` under different keys, which says nothing about their values."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    parts = [text.split(":") for text in (one, other)]
    return all(len(part) == 3 and part[0] == _SCHEME for part in parts) and parts[0][1] != parts[1][1]
