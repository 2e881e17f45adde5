"""Templates to text: strict about what is not there, and nothing leaves them unquoted."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfprov.errors import InvalidInput, Position, Problem, Usage, one_line
from tfprov.render.quoting import FILTERS, finished

SHIPPED = Path(__file__).parent / "templates"
"""The templates that come with tfprov."""


def fill(templates: Mapping[str, str], values: Mapping[str, object], override: Path | None = None) -> dict[str, str]:
    """Return the text of every file in `templates`, which names the template of each.

    A template of the same name in `override` is used instead. InvalidInput names the line of a template that fails,
    Usage an `override` in which there is none.
    """
    _check_override(override, set(templates.values()))
    environment = _environment(override)
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for file, name in templates.items():
        try:
            found[file] = environment.get_template(name).render(values)
        except (TemplateError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            problems.append(Problem(_where(error, name, override), _said(error), "correct the template"))
    if problems:
        raise InvalidInput(problems)
    return found


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
    found = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent in directories:
            found = Position(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _said(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)
