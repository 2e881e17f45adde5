"""Which names stand for secrets, whatever their values look like."""

import hashlib
import hmac
import re
from collections.abc import Callable

_WORDS = frozenset(["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "KEY", "APIKEY"])
"""Words of a name that make its value a secret: `HF_TOKEN` and `AWS_SECRET_ACCESS_KEY`, but neither `MONKEY` nor
`MAX_TOKENS`."""
_PLACES = frozenset(["FILE", "PATH", "DIR"])
"""Last words of the name of a place, which is no secret: `SSL_KEY_FILE`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ANSIBLE_PASSWORD = re.compile(r"ansible_\w*pass\w*", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether `name`, such as that of an environment variable, has a word that stands for a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    return any(word in _WORDS for word in words) and words[-1] not in _PLACES


def is_ansible_password(way: str) -> bool:
    """Whether `way`, a variable with what leads to it, is one of Ansible's passwords, such as `ansible_become_pass`."""
    return _ANSIBLE_PASSWORD.search(way) is not None


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


def hashed_with_other_key(one: object, other: object) -> bool:
    """Whether both are hashes of `KeyedHash` under different keys, which says nothing about their values."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    parts = [text.split(":") for text in (one, other)]
    return all(len(part) == 3 and part[0] == _SCHEME for part in parts) and parts[0][1] != parts[1][1]
