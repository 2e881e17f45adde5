"""`lookup(…)` and `query(…)` in templates: `env`, `vars` and `file`. No lookup runs a program or uses the network."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateRuntimeError, Undefined, pass_context
from jinja2.runtime import Context

from tfprov.errors import hide_secret
from tfprov.vault.redaction import is_masked, mentions_secret

_MAX_BYTES = 1_000_000


class _Omit:
    """Marks an entry to leave out."""

    def __repr__(self) -> str:
        return "omit"


OMIT = _Omit()
"""The value of `{{ omit }}`."""


@pass_context
def query(context: Context, kind: str, *terms: Any, **options: Any) -> list[Any]:
    """Return the results of the lookup plugin `kind` for `terms`, as a list."""
    name = kind.removeprefix("ansible.builtin.") if isinstance(kind, str) else str(kind)
    if name not in _LOOKUPS:
        supported = ", ".join(f"`{lookup}`" for lookup in _LOOKUPS)
        raise TemplateRuntimeError(f"no lookup `{name}` here: there are {supported}")
    flat = [term for several in terms for term in (several if isinstance(several, list) else [several])]
    # str() of an undefined value raises, with its name.
    return list(_LOOKUPS[name](context, [str(term) for term in flat], options))


@pass_context
def lookup(context: Context, kind: str, *terms: Any, **options: Any) -> Any:
    """Return the results of `query` as one value; several texts are joined with commas."""
    results = query(context, kind, *terms, **options)
    if options.get("wantlist"):
        return results
    if len(results) != 1 and all(isinstance(result, str) for result in results):
        return ",".join(results)
    return results[0] if len(results) == 1 else results


def _env(context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[Any]:
    """Yield environment variables; one whose name has a word such as TOKEN is a secret, as with `!env`."""
    default = options.get("default", "")
    for term in terms:
        name = term.split()[0] if term.split() else ""
        note_variable(context.environment, name)
        yield os.environ.get(name, default)


def note_variable(environment: Environment, name: str) -> None:
    """Record that a rendering reads an environment variable, which is a secret by its name."""
    if (mentions_secret(name) or is_masked(name)) and name in os.environ:
        hide_secret(os.environ[name])
        getattr(environment, "variables").state.note_secret()  # noqa: B009  as in `_file`


def _vars(context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[Any]:
    for term in terms:
        value = context.resolve(term)
        if isinstance(value, Undefined) and "default" in options:
            value = options["default"]
        if isinstance(value, Undefined):
            str(value)
        yield value


def _file(context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[str]:
    # Not from the context: a template can set `inventory_dir` itself, which must not widen its access.
    variables = getattr(context.environment, "variables")  # noqa: B009  of the Sandbox, which imports this module
    home = str(variables["inventory_dir"])
    roots = [home, *getattr(variables, "lookup_dirs", ())]
    for term in terms:
        path = _resolve(roots, Path(home, Path(term).expanduser()), term)
        try:
            content = _read(path)
            text = content.decode()
        except (OSError, ValueError) as error:
            reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not UTF-8 text"
            raise TemplateRuntimeError(f"lookup of the file `{term}`: {reason}") from None
        if len(content) > _MAX_BYTES:
            raise TemplateRuntimeError(f"lookup of the file `{term}`: larger than {_MAX_BYTES:,} bytes")
        text = text.rstrip() if options.get("rstrip", True) else text
        yield text.lstrip() if options.get("lstrip") else text


def _resolve(roots: list[str], path: Path, term: str) -> str:
    """Return `path` without links and `..`; raises unless it is then below one of `roots`."""
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots):
        reason = "it is not below the directory of the inventory"
        raise TemplateRuntimeError(f"lookup of the file `{term}`: {reason}; allow its directory with `--lookup-dir`")
    return real


def _read(path: str) -> bytes:
    """Return the first bytes of a regular file; a FIFO or a device could block or never end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(_MAX_BYTES + 1)


_LOOKUPS: dict[str, Callable[[Context, list[str], dict[str, Any]], Iterator[Any]]] = {
    "env": _env,
    "file": _file,
    "vars": _vars,
}
