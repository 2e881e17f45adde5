"""Templates and their filters: every value is quoted, so no text of a user can end its quotes."""

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

from tfprov.errors import InvalidInput, Position, Problem, Usage, one_line, printable


class Unquoted(ValueError):
    """A template writes a value without quoting it."""


_UNSAFE = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows unescaped, and YAML does not."""


def as_json(value: object) -> Markup:
    """Return `value` as JSON on one line, which is YAML as well."""
    return Markup(_escape(_encode(value)))  # noqa: S704  not HTML: Markup marks quoted text


def _reject(value: object) -> NoReturn:
    str(value)  # an undefined value raises here, with its name
    raise Unquoted(f"a {type(value).__name__} cannot be written as JSON")


# Not in ASCII: JSON writes an emoji as two surrogates, which YAML does not combine.
_encode = json.JSONEncoder(ensure_ascii=False, default=_reject).encode


def _escape(text: str) -> str:
    """Return JSON with the characters escaped that are unsafe in YAML."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_word(value: object) -> Markup:
    """Return `value` as one word for a shell."""
    return Markup(shlex.quote(str(value)))  # noqa: S704  see as_json


def as_remark(value: object) -> Markup:
    """Return `value` on one line, for a comment."""
    return Markup(one_line(str(value)))  # noqa: S704  see as_json


def as_compose(value: object) -> Markup:
    """Return `value` as JSON for a Compose file, with each `$` doubled against interpolation."""
    return Markup(as_json(value).replace("$", "$$"))  # noqa: S704  see as_json


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_YAML11_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 reads as booleans or null."""


def as_block(value: object, indent: int) -> Markup:
    """Return nested mappings and lists as YAML, one entry a line; all lines but the first begin with `indent` spaces."""
    _, lines = _layout(json.loads(_encode(value)))  # turns tuples into lists, rejects undefined values
    return Markup(_escape(f"\n{' ' * indent}".join(lines)))  # noqa: S704  see as_json


def as_lines(text: str, indent: int) -> Markup:
    """Return a text as a literal block with `indent` spaces, or as JSON if a block cannot hold it."""
    is_plain = text.endswith("\n") and not text.endswith("\n\n") and not text[:1].isspace()
    if (
        not is_plain
        or " \n" in text
        or not text.replace("\n", "").isascii()
        or not text.replace("\n", "").isprintable()
    ):
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
"""Filters by their names in templates."""


def require_quoted(value: object) -> object:
    """Return quoted text and numbers; Unquoted for any other value. Jinja2 calls it for every `{{ … }}`."""
    if isinstance(value, str) and not isinstance(value, Markup):
        raise Unquoted("a text leaves the template unquoted: write `{{ value | json }}`, `| sh` or `| remark`")
    if value is None or isinstance(value, bool | list | tuple | dict):
        raise Unquoted(f"a {type(value).__name__} leaves the template unquoted: write `{{{{ value | json }}}}`")
    return value


SHIPPED = Path(__file__).parent / "templates"
"""The templates that come with tfprov."""


def render_templates(
    templates: Mapping[str, str], values: Mapping[str, object], override: Path | None = None
) -> dict[str, str]:
    """Return the text of every file in `templates`, a mapping of files to their templates.

    A template of the same name in `override` is used instead. Raises InvalidInput with the line of a failed template, and
    Usage for an `override` without templates.
    """
    _check_override(override, set(templates.values()))
    environment = _environment(override)
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for file, name in templates.items():
        try:
            files[file] = environment.get_template(name).render(values)
        except (TemplateError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            problems.append(Problem(_error_position(error, name, override), _message(error), "correct the template"))
    if problems:
        raise InvalidInput(problems)
    return files


def _check_override(override: Path | None, names: set[str]) -> None:
    if override is not None and not any((override / path.name).is_file() for path in SHIPPED.glob("*.j2")):
        what = f"{override} has none of {', '.join(sorted(names))}" if override.is_dir() else f"no directory {override}"
        raise Usage(f"`--template`: {what}", f"copy one from {SHIPPED}")


@lru_cache(maxsize=4)
def _environment(override: Path | None) -> ImmutableSandboxedEnvironment:
    """Return the Jinja2 environment; it caches compiled templates and reloads changed files."""
    directories = [*([override] if override else []), SHIPPED]
    environment = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(directory) for directory in directories]),
        undefined=StrictUndefined,
        # The results of macros and filters are Markup; everything else is not, and `require_quoted` refuses it.
        autoescape=True,
        finalize=require_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _error_position(error: Exception, name: str, override: Path | None) -> Position:
    """Return the position of an error in a template, as far as Jinja2 reports it."""
    if isinstance(error, TemplateSyntaxError):
        return Position(error.filename or error.name or name, error.lineno)
    return _last_template_line(error.__traceback__, override) or Position(name)


def _last_template_line(trace: TracebackType | None, override: Path | None) -> Position | None:
    """Return the innermost template line of a traceback; Jinja2 puts template lines into tracebacks."""
    directories = {SHIPPED, *([override] if override else [])}
    position = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent in directories:
            position = Position(file, trace.tb_lineno)
        trace = trace.tb_next
    return position


def _message(error: Exception) -> str:
    if isinstance(error, TemplateNotFound):
        return f"there is no template `{printable(str(error.name))}`"
    return one_line(str(error) or type(error).__name__)
