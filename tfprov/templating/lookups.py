"""`lookup(…)` and `query(…)` in templates: the environment, other variables and files; nothing that runs or fetches."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jinja2 import TemplateRuntimeError, Undefined, pass_context
from jinja2.runtime import Context

_MAX_BYTES = 1_000_000


class _Omit:
    """Stands where an entry is to be left out."""

    def __repr__(self) -> str:
        return "omit"


OMIT = _Omit()
"""What `{{ omit }}` is."""


@pass_context
def query(context: Context, kind: str, *terms: Any, **options: Any) -> list[Any]:
    """Return what the lookup called `kind` finds for each of `terms`."""
    name = kind.removeprefix("ansible.builtin.") if isinstance(kind, str) else str(kind)
    if name not in _LOOKUPS:
        known = ", ".join(f"`{one}`" for one in _LOOKUPS)
        raise TemplateRuntimeError(f"no lookup `{name}` here: there are {known}")
    flat = [term for several in terms for term in (several if isinstance(several, list) else [several])]
    # The text of something undefined raises, and says which it is.
    return list(_LOOKUPS[name](context, [str(term) for term in flat], options))


@pass_context
def lookup(context: Context, kind: str, *terms: Any, **options: Any) -> Any:
    """Return what `query` finds as one value: several texts with commas between them."""
    found = query(context, kind, *terms, **options)
    if options.get("wantlist"):
        return found
    if len(found) != 1 and all(isinstance(one, str) for one in found):
        return ",".join(found)
    return found[0] if len(found) == 1 else found


def _env(_context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[Any]:
    default = options.get("default", "")
    for term in terms:
        yield os.environ.get(term.split()[0] if term.split() else "", default)


def _vars(context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[Any]:
    for term in terms:
        value = context.resolve(term)
        if isinstance(value, Undefined) and "default" in options:
            value = options["default"]
        if isinstance(value, Undefined):
            str(value)
        yield value


def _file(context: Context, terms: list[str], options: dict[str, Any]) -> Iterator[str]:
    # A template can set a variable of its own called `inventory_dir`, which must not widen what it may read.
    variables = getattr(context.environment, "variables")  # noqa: B009  of our Sandbox, which this is imported by
    home = str(variables["inventory_dir"])
    roots = [home, *getattr(variables, "lookup_dirs", ())]
    for term in terms:
        path = _below(roots, Path(home, Path(term).expanduser()), term)
        try:
            found = _content(path)
            text = found.decode()
        except (OSError, ValueError) as error:
            reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not UTF-8 text"
            raise TemplateRuntimeError(f"lookup of the file `{term}`: {reason}") from None
        if len(found) > _MAX_BYTES:
            raise TemplateRuntimeError(f"lookup of the file `{term}`: larger than {_MAX_BYTES:,} bytes")
        text = text.rstrip() if options.get("rstrip", True) else text
        yield text.lstrip() if options.get("lstrip") else text


def _below(roots: list[str], path: Path, term: str) -> str:
    """Return `path` without links and `..`, or raise where it then lies below none of `roots`."""
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots):
        where = "it is not below the directory of the inventory"
        raise TemplateRuntimeError(f"lookup of the file `{term}`: {where}; allow its directory with `--lookup-dir`")
    return real


def _content(path: str) -> bytes:
    """Return a regular file's first bytes; a FIFO or device would never end, or never begin."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(_MAX_BYTES + 1)


_LOOKUPS: dict[str, Callable[[Context, list[str], dict[str, Any]], Iterator[Any]]] = {
    "env": _env,
    "file": _file,
    "vars": _vars,
}
