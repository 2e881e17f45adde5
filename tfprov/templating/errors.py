"""Errors of templates, and the messages about undefined variables. Does not import Jinja2."""

import re

from tfprov.errors import InvalidInput, one_line

DEFINE = "define it under `vars:` or give it with `-e`"
"""The fix for an undefined variable."""
UNDEFINED = "undefined variable"
"""Prefix of every error about an undefined variable."""

_PYTHON_NAMES = {"LazyList": "list", "LazyMapping": "dict", "HostVars": "dict", "Groups": "dict", "Variables": "dict"}
_OUR_TYPES = re.compile(r"\b(?:LazyList|LazyMapping)\b|(?<=`)(?:HostVars|Groups|Variables)(?=`)")
"""Types of ours in Python's messages. The last three are words, too, which a template may have in a text."""


class UndefinedVariable(InvalidInput):
    """A template uses an undefined variable without `| default(…)`."""


class OmittedValue(InvalidInput):
    """A template renders to `omit`: its entry is left out of the surrounding mapping or list."""


def describe_exception(error: Exception | str) -> str:
    """Return the message of Python or Jinja2 on one line, with the types that a user knows."""
    return _OUR_TYPES.sub(lambda name: _PYTHON_NAMES[name[0]], one_line(str(error)))
