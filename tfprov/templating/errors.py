"""Errors of templates, and the messages about undefined variables. Does not import Jinja2."""

from tfprov.errors import InvalidInput

DEFINE = "define it under `vars:` or give it with `-e`"
"""The fix for an undefined variable."""
UNDEFINED = "undefined variable"
"""Prefix of every error about an undefined variable."""


class UndefinedVariable(InvalidInput):
    """A template uses an undefined variable without `| default(…)`."""


class OmittedValue(InvalidInput):
    """A template renders to `omit`: its entry is left out of the surrounding mapping or list."""
