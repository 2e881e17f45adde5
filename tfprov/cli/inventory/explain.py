"""`tfprov inventory explain`: where every value of a host comes from."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from tfprov.cli.options import inventory_of, json_option, show_secrets_option, source_options
from tfprov.cli.output import Printer
from tfprov.cli.screening import json_screened
from tfprov.errors import shown
from tfprov.model.inventory import ROLES
from tfprov.settings.provenance import HostExplanation, Origin, SourceValue, describe_place, explain

_NAME, _DIM, _BAD = "36", "2", "31"
"""ANSI: cyan, faint, red."""
_LONGEST = 44
"""Characters of a value in the table; `--json` has all of them."""

Row = tuple[tuple[str, str, str], str]
"""Three cells, and the colour of the last two."""


@click.command("explain")
@click.argument("host")
@click.argument("key", required=False)
@click.option("--role", type=click.Choice(ROLES), help="Settings in this role only; default: in all it has.")
@json_option
@show_secrets_option
@source_options
def explain_command(
    host: str, key: str | None, role: str | None, as_json: bool, show_secrets: bool, **options: Any
) -> None:
    """KEY is a variable or a setting, or what others are below: `tfprov.flags.train_steps`, `tfprov.checkpoints`.

    Under each value stand those it wins over, the strongest first.
    """
    found = explain(inventory_of(options), host, role, show_secrets=show_secrets)
    if key is not None:
        found = found.only(key)
    if as_json:
        click.echo(json_screened(json.dumps(_data(found), indent=2, default=str)))
        return
    printer = Printer(live=False)
    for line in _lines(found, printer, whole=key is None):
        printer.print(line)


def _lines(found: HostExplanation, printer: Printer, *, whole: bool) -> Iterator[str]:
    """Yield what is told to people: variables, then settings; defaults stand at the end."""
    parts = list(_parts(found))
    rows = [row for _, origins in parts for row in _rows(origins)]
    widths = [max((len(cells[column]) for cells, _ in rows), default=0) for column in range(3)]
    if whole:
        yield f"{found.host}: {', '.join(found.groups)} ({found.at})"
    for number, (title, origins) in enumerate(parts):
        if title and (whole or len(parts) > 1):
            yield from ["", title] if whole or number else [title]
        for cells, colour in _rows(origins):
            name, value, where = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            rest = f"{value}  {where}".rstrip()
            yield f"{printer.paint(name, _NAME)}  {printer.paint(rest, colour) if colour else rest}".rstrip()


def _parts(found: HostExplanation) -> Iterator[tuple[str, tuple[Origin, ...]]]:
    """Yield variables and settings under titles; roles in which all settings are the same are told together."""
    if found.variables:
        yield "variables", found.variables
    alike: dict[tuple[Any, ...], list[str]] = {}
    for role, origins in found.settings.items():
        alike.setdefault(tuple(map(repr, origins)), []).append(role)
    for roles in alike.values():
        yield f"settings as {' and '.join(roles)}", found.settings[roles[0]]


def _rows(origins: Iterable[Origin]) -> Iterator[Row]:
    ordered = sorted(origins, key=lambda one: one.is_default)
    for one in ordered:
        colour = _BAD if one.failed else _DIM if one.is_default else ""
        value = f"({one.note})" if one.note and one.value is None else _text(one.value)
        yield (one.name, _short(value), describe_place(one.source)), colour
        if one.template and one.source.written != one.value:
            yield ("", _short(f"  = {_text(one.source.written)}"), ""), _DIM
        for lost in one.overridden:
            called = f"{lost.name}: " if lost.name else ""
            yield ("", _short(f"  over {called}{_text(lost.written)}"), describe_place(lost)), _DIM
        for other in one.elsewhere:
            yield ("", _short(f"  not {_text(other.written)}"), f"{describe_place(other)}: of another role"), _DIM


def _text(value: Any) -> str:
    """Return a value as it would stand in the file, on one line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value) or '""'


def _short(text: str) -> str:
    return shown(text) if len(text) <= _LONGEST else f"{shown(text[: _LONGEST - 3])}..."


def _data(found: HostExplanation) -> dict[str, Any]:
    """Return plain data for `--json`."""
    settings = {role: {one.name: _origin(one) for one in origins} for role, origins in found.settings.items()}
    own = {one.name: _origin(one) for one in found.variables}
    return {"host": found.host, "groups": list(found.groups), "variables": own, "settings": settings}


def _origin(one: Origin) -> dict[str, Any]:
    told = {"value": one.value, "from": _given(one.source), "overrides": [_given(lost) for lost in one.overridden]}
    told |= {"default": True} if one.is_default else {}
    told |= {"template": one.source.written} if one.template else {}
    told |= {"of_other_roles": [_given(other) for other in one.elsewhere]} if one.elsewhere else {}
    return told | ({"problem" if one.failed else "note": one.note} if one.note else {})


def _given(given: SourceValue) -> dict[str, Any]:
    at = {"file": given.at.file, "line": given.at.line, "column": given.at.column} if given.at else {}
    named = {"name": given.name} if given.name else {}
    return {"value": given.written, "origin": given.origin, **named, **at}
