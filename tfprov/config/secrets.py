"""Values that no message may repeat: what is said about them is where they stand and what they are called."""

import re

SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
"""Variables that hold a password."""

_NAMED = re.compile(r"(?:pass|secret|token)\w*", re.IGNORECASE)


def mentions_secret(text: str) -> bool:
    """Whether `text` is or holds the name of a password, or of something like it."""
    return _NAMED.search(text) is not None


def discreet(text: str) -> str:
    """Return what may be repeated of a line: nothing that stands behind the name of a password."""
    found = _NAMED.search(text)
    return f"{text[: found.end()]}…" if found and found.end() < len(text) else text
