"""Outcomes of a template that are no value, and the words for undefined variables. Imports no Jinja2."""

from tfprov.errors import InvalidInput

DEFINE = "define it under `vars:` or give it with `-e`"
"""The fix for an undefined variable."""
UNDEFINED = "undefined variable"
"""How every error about an undefined variable begins."""


class UndefinedVariable(InvalidInput):
    """A template uses an undefined variable; `| default(…)` in the template, or where its value is used, helps."""


class OmittedValue(InvalidInput):
    """A template renders to `omit`: its entry is left out of the mapping or list it stands in."""
