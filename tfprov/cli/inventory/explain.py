"""`tfprov inventory explain`: shows where every value of a host comes from."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.options import inventory_of, json_option, show_secrets_option, source_options
from tfprov.cli.output import Printer
from tfprov.cli.shells import values
from tfprov.errors import printable
from tfprov.model.inventory import ROLES
from tfprov.settings.provenance import HostExplanation, Origin, SourceValue, describe_place, explain

_NAME, _DIM, _BAD = "36", "2", "31"
"""ANSI: cyan, faint, red."""
_LONGEST = 44
"""Characters of a value in the table; `--json` has all of them."""

Row = tuple[tuple[str, str, str], str]
"""Three cells, and the colour of the last two."""


@click.command("explain")
@click.argument("host", shell_complete=values.hosts)
@click.argument("key", required=False)
@click.option("--role", type=click.Choice(ROLES), help="Settings in this role only; default: in all it has.")
@json_option
@show_secrets_option
@source_options
def explain_command(
    host: str, key: str | None, role: str | None, as_json: bool, show_secrets: bool, **options: Any
) -> None:
    """KEY is a variable, a setting or a group of settings: `tfprov.flags.train_steps`, `tfprov.checkpoints`.

    Below each value are those that it wins over, the strongest first.
    """
    explained = explain(inventory_of(options), host, role, show_secrets=show_secrets)
    if key is not None:
        explained = explained.only(key)
    if as_json:
        click.echo(json_screened(json.dumps(_data(explained), indent=2, default=str)))
        return
    printer = Printer(live=False)
    for line in _lines(explained, printer, whole=key is None):
        printer.print(line)


def _lines(explained: HostExplanation, printer: Printer, *, whole: bool) -> Iterator[str]:
    """Yield the lines of the table: variables, then settings; defaults last."""
    parts = list(_parts(explained))
    rows = [row for _, origins in parts for row in _rows(origins)]
    widths = [max((len(cells[column]) for cells, _ in rows), default=0) for column in range(3)]
    if whole:
        yield f"{explained.host}: {', '.join(explained.groups)} ({explained.at})"
    for number, (title, origins) in enumerate(parts):
        if title and (whole or len(parts) > 1):
            yield from ["", title] if whole or number else [title]
        for cells, colour in _rows(origins):
            name, value, where = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            rest = f"{value}  {where}".rstrip()
            yield f"{printer.paint(name, _NAME)}  {printer.paint(rest, colour) if colour else rest}".rstrip()


def _parts(explained: HostExplanation) -> Iterator[tuple[str, tuple[Origin, ...]]]:
    """Yield variables and settings with their titles; roles with equal settings share one part."""
    if explained.variables:
        yield "variables", explained.variables
    roles_of: dict[tuple[Any, ...], list[str]] = {}
    for role, origins in explained.settings.items():
        roles_of.setdefault(tuple(map(repr, origins)), []).append(role)
    for roles in roles_of.values():
        yield f"settings as {' and '.join(roles)}", explained.settings[roles[0]]


def _rows(origins: Iterable[Origin]) -> Iterator[Row]:
    ordered = sorted(origins, key=lambda origin: origin.is_default)
    for origin in ordered:
        colour = _BAD if origin.failed else _DIM if origin.is_default else ""
        value = f"({origin.note})" if origin.note and origin.value is None else _text(origin.value)
        yield (origin.name, _short(value), describe_place(origin.source)), colour
        if origin.template and origin.source.written != origin.value:
            yield ("", _short(f"  = {_text(origin.source.written)}"), ""), _DIM
        for lost in origin.overridden:
            called = f"{lost.name}: " if lost.name else ""
            yield ("", _short(f"  over {called}{_text(lost.written)}"), describe_place(lost)), _DIM
        for other in origin.elsewhere:
            yield ("", _short(f"  not {_text(other.written)}"), f"{describe_place(other)}: of another role"), _DIM


def _text(value: Any) -> str:
    """Return a value on one line, as YAML."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value) or '""'


def _short(text: str) -> str:
    return printable(text) if len(text) <= _LONGEST else f"{printable(text[: _LONGEST - 3])}..."


def _data(explained: HostExplanation) -> dict[str, Any]:
    """Return plain data for `--json`."""
    settings = {
        role: {origin.name: _origin(origin) for origin in origins} for role, origins in explained.settings.items()
    }
    own = {origin.name: _origin(origin) for origin in explained.variables}
    return {"host": explained.host, "groups": list(explained.groups), "variables": own, "settings": settings}


def _origin(origin: Origin) -> dict[str, Any]:
    data = {
        "value": origin.value,
        "from": _source(origin.source),
        "overrides": [_source(lost) for lost in origin.overridden],
    }
    data |= {"default": True} if origin.is_default else {}
    data |= {"template": origin.source.written} if origin.template else {}
    data |= {"of_other_roles": [_source(other) for other in origin.elsewhere]} if origin.elsewhere else {}
    return data | ({"problem" if origin.failed else "note": origin.note} if origin.note else {})


def _source(source: SourceValue) -> dict[str, Any]:
    at = {"file": source.at.file, "line": source.at.line, "column": source.at.column} if source.at else {}
    named = {"name": source.name} if source.name else {}
    return {"value": source.written, "origin": source.origin, **named, **at}
