"""Secrets from the controller's environment: `!env NAME`."""

import os
import re

from tfprov.errors import Position, Problem, hide_secret
from tfprov.vault.decrypt import DecryptionError

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""A name of an environment variable."""


def read_variable(name: str, at: Position) -> str:
    """Return the value of an environment variable, which no message repeats from here on.

    Raises DecryptionError, as for an encrypted value that cannot be decrypted, if it is not set or empty.
    """
    value = os.environ.get(name, "")
    if not value:
        fix = f"`export {name}=…` before this, or take the value from a vault"
        raise DecryptionError(
            [Problem(at, f"the environment variable {name} is {'empty' if name in os.environ else 'not set'}", fix)]
        )
    hide_secret(value)
    return value
