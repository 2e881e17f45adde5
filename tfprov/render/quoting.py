"""The filters through which every value goes into a template: nothing a user wrote can end the quotes it stands in."""

import json
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from tfprov.errors import InvalidInput, Position, Problem, Usage, one_line


class Unquoted(ValueError):
    """A template puts a text out as it is."""


_UNSEEN = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Marks that JSON allows in a text as they are, and YAML does not."""


def as_json(value: object) -> Markup:
    """Return `value` as JSON on one line, which is YAML as well."""
    return Markup(_escape(_encode(value)))  # noqa: S704  nothing here is HTML: it marks what is quoted


def _odd(value: object) -> NoReturn:
    str(value)  # raises for what is undefined, with its name
    raise Unquoted(f"a {type(value).__name__} is no value that can be written")


# Not all in ASCII: JSON writes an emoji as two halves, which YAML does not put together again.
_encode = json.JSONEncoder(ensure_ascii=False, default=_odd).encode


def _escape(text: str) -> str:
    """Return JSON with the characters escaped that YAML does not take as they are."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_word(value: object) -> Markup:
    """Return `value` as one word of a shell's command line."""
    return Markup(shlex.quote(str(value)))  # noqa: S704  see as_json


def as_remark(value: object) -> Markup:
    """Return `value` for a comment: on one line, whatever is in it."""
    return Markup(one_line(str(value)))  # noqa: S704  see as_json


def as_compose(value: object) -> Markup:
    """Return `value` for a Compose file: as JSON, with each `$` doubled, which Compose would take for a variable."""
    return Markup(as_json(value).replace("$", "$$"))  # noqa: S704  see as_json


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_YAML11_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 reads as booleans or null."""


def as_block(value: object, indent: int) -> Markup:
    """Return nested mappings and lists as YAML, one entry a line; all lines but the first begin with `indent` spaces."""
    _, lines = _layout(json.loads(_encode(value)))  # so it holds neither tuples nor undefined values
    return Markup(_escape(f"\n{' ' * indent}".join(lines)))  # noqa: S704  see as_json


def as_lines(text: str, indent: int) -> Markup:
    """Return a text of several lines for people to read, `indent` blanks before each; as JSON where YAML could not."""
    whole = text.endswith("\n") and not text.endswith("\n\n") and not text[:1].isspace()
    if not whole or " \n" in text or not text.replace("\n", "").isascii() or not text.replace("\n", "").isprintable():
        return as_json(text)
    return Markup("|\n" + "\n".join(f"{' ' * indent}{line}".rstrip() for line in text.splitlines()))  # noqa: S704


_SHORT = 72
"""Maximum characters of a mapping or list on one line."""


def _layout(value: object) -> tuple[str, list[str]]:
    """Return a value as JSON on one line, and as the lines of a block."""
    parts: list[str] = []
    lines: list[str] = []
    if isinstance(value, dict) and value:
        for name, below in value.items():
            text, block = _layout(below)
            parts.append(f"{_encode(name)}: {text}")
            is_short = len(text) <= _SHORT or len(block) == 1
            lines += [f"{_key(name)}: {text}"] if is_short else [f"{_key(name)}:", *(f"  {line}" for line in block)]
        return f"{{{', '.join(parts)}}}", lines
    if isinstance(value, list) and value:
        for item in value:
            text, block = _layout(item)
            parts.append(text)
            first, *rest = [text] if len(text) <= _SHORT else block
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return f"[{', '.join(parts)}]", lines
    text = _encode(value)
    return text, [text]


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _YAML11_WORDS else _encode(name)


FILTERS = {
    "json": as_json,
    "block": as_block,
    "lines": as_lines,
    "sh": as_word,
    "remark": as_remark,
    "compose": as_compose,
}
"""By the names that templates use."""


def finished(value: object) -> object:
    """Let out what is quoted, and plain numbers; Unquoted for everything else. Jinja2 calls it for every `{{ … }}`."""
    if isinstance(value, str) and not isinstance(value, Markup):
        raise Unquoted("a text leaves the template unquoted: write `{{ value | json }}`, `| sh` or `| remark`")
    if value is None or isinstance(value, bool | list | tuple | dict):
        raise Unquoted(f"a {type(value).__name__} leaves the template unquoted: write `{{{{ value | json }}}}`")
    return value


SHIPPED = Path(__file__).parent / "templates"
"""The templates that come with tfprov."""


def fill(templates: Mapping[str, str], values: Mapping[str, object], override: Path | None = None) -> dict[str, str]:
    """Return the text of every file in `templates`, which names the template of each.

    A template of the same name in `override` is used instead. InvalidInput names the line of a template that fails,
    Usage an `override` in which there is none.
    """
    _check_override(override, set(templates.values()))
    environment = _environment(override)
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for file, name in templates.items():
        try:
            files[file] = environment.get_template(name).render(values)
        except (TemplateError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            problems.append(Problem(_where(error, name, override), _said(error), "correct the template"))
    if problems:
        raise InvalidInput(problems)
    return files


def _check_override(override: Path | None, wanted: set[str]) -> None:
    if override is not None and not any((override / path.name).is_file() for path in SHIPPED.glob("*.j2")):
        what = (
            f"{override} has none of {', '.join(sorted(wanted))}" if override.is_dir() else f"no directory {override}"
        )
        raise Usage(f"`--template`: {what}", f"copy one from {SHIPPED}")


@lru_cache(maxsize=4)
def _environment(override: Path | None) -> ImmutableSandboxedEnvironment:
    """Return what fills templates; it keeps those it has compiled, and looks whether their files have changed."""
    directories = [*([override] if override else []), SHIPPED]
    environment = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(directory) for directory in directories]),
        undefined=StrictUndefined,
        # What a macro or a filter gives is marked as finished; everything else is not, and `finished` refuses it.
        autoescape=True,
        finalize=finished,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _where(error: Exception, name: str, override: Path | None) -> Position:
    """Return where in a template something is wrong, as far as Jinja2 says."""
    if isinstance(error, TemplateSyntaxError):
        return Position(error.filename or error.name or name, error.lineno)
    if isinstance(error, TemplateNotFound):
        return Position(name)
    return _deepest(error.__traceback__, override) or Position(name)


def _deepest(trace: TracebackType | None, override: Path | None) -> Position | None:
    """Return the last line of a template on the way to an error: Jinja2 makes tracebacks name them."""
    directories = {SHIPPED, *([override] if override else [])}
    position = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent in directories:
            position = Position(file, trace.tb_lineno)
        trace = trace.tb_next
    return position


def _said(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)
