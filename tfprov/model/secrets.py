"""Names that mark their values as secrets, and keyed hashes of secret values."""

import hashlib
import hmac
import re
from collections.abc import Callable

_WORDS = frozenset(["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "KEY", "APIKEY"])
"""Words in a name that make its value a secret: `HF_TOKEN`, `AWS_SECRET_ACCESS_KEY`, but not `MONKEY` or `MAX_TOKENS`."""
_PATH_WORDS = frozenset(["FILE", "PATH", "DIR"])
"""Last words of a name whose value is a path, and so not a secret: `SSL_KEY_FILE`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ANSIBLE_PASSWORD = re.compile(r"ansible_\w*pass\w*", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether `name`, such as that of an environment variable, has a word that marks a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    return any(word in _WORDS for word in words) and words[-1] not in _PATH_WORDS


def is_ansible_password(path: str) -> bool:
    """Whether `path` ends at or leads through one of Ansible's passwords, such as `ansible_become_pass`."""
    return _ANSIBLE_PASSWORD.search(path) is not None


_SCHEME = "hmac-sha256"
_ID_DIGITS = 16


class KeyedHash:
    """Hashes secrets with the key that `key` returns, which is called when a secret has to be hashed."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def of(self, cluster: str, name: str, value: str) -> str:
        """Return `hmac-sha256:KEY:HASH` for an environment variable of a cluster; `KEY` identifies the key."""
        key = self._key()
        identity = hmac.digest(key, b"identity", "sha256").hex()[:_ID_DIGITS]
        message = b"\0".join(text.encode("utf-8", "surrogateescape") for text in (cluster, name, value))
        return f"{_SCHEME}:{identity}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


def hashed_with_other_key(left: object, right: object) -> bool:
    """Whether both are hashes of `KeyedHash` with different keys, which cannot be compared."""
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    parts = [text.split(":") for text in (left, right)]
    return all(len(part) == 3 and part[0] == _SCHEME for part in parts) and parts[0][1] != parts[1][1]
