"""Which names stand for secrets, whatever their values look like."""

import re

_WORDS = frozenset(["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "KEY", "APIKEY"])
"""Words of a name that make its value a secret: `HF_TOKEN` and `AWS_SECRET_ACCESS_KEY`, but neither `MONKEY` nor
`MAX_TOKENS`."""
_PLACES = frozenset(["FILE", "PATH", "DIR"])
"""Last words of the name of a place, which is no secret: `SSL_KEY_FILE`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ANSIBLE_PASSWORD = re.compile(r"ansible_\w*pass\w*", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Whether `name`, such as that of an environment variable, has a word that stands for a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    return any(word in _WORDS for word in words) and words[-1] not in _PLACES


def is_ansible_password(way: str) -> bool:
    """Whether `way`, a variable with what leads to it, is one of Ansible's passwords, such as `ansible_become_pass`."""
    return _ANSIBLE_PASSWORD.search(way) is not None
