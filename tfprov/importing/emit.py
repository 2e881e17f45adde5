"""Emits the text of an inventory, with the position in the foreign file that each line comes from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprov.editing.scalar_emitter import emit_key, emit_text
from tfprov.errors import Position
from tfprov.importing.identify import Setting
from tfprov.importing.roles import Role, Template

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_BRACES = re.compile(r"\{[{%#]")

Key = tuple[str, str, int]
"""Role ("" for all), setting, and index of the entry (-1 for the whole setting)."""


@dataclass(frozen=True)
class TargetHost:
    """A host for the tasks: name, user and port for SSH."""

    name: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Line:
    """A line of the inventory; `at` is its position in the foreign file, `key` its setting if it can be dropped."""

    text: str
    at: Position | None = None
    key: Key | None = None


@dataclass(frozen=True)
class InventoryDraft:
    """An inventory before it is written. `shared` are the settings of all roles."""

    source: str
    cluster: str
    shared: Mapping[str, Setting]
    roles: Sequence[Role]
    hosts: Mapping[str, Sequence[TargetHost]]

    def lines(self) -> list[Line]:
        """Return the lines of the inventory."""
        return [
            Line(f"# A TensorFlow cluster, imported from {self.source}."),
            Line("all:"),
            Line("  vars:"),
            Line("    tfprov:"),
            Line(f"      cluster: {emit_text(self.cluster, flow=False)}"),
            *_settings("", self.shared, 6),
            Line("  children:"),
            *(line for role in self.roles for line in self._role(role)),
        ]

    def _role(self, role: Role) -> Iterator[Line]:
        yield Line(f"    {role.name}:")
        yield Line("      hosts:")
        hosts = self.hosts[role.name]
        for host in hosts:
            yield Line(f"        {emit_key(host.name, flow=False, as_json=False)}:{_connection_vars(host)}")
        per_host = role.count // len(hosts)
        own = [*([Line(f"          tasks_per_host: {per_host}")] if per_host > 1 else [])]
        own += _settings(role.name, role.settings, 10)
        if own:
            yield from (Line("      vars:"), Line("        tfprov:"), *own)


def _connection_vars(host: TargetHost) -> str:
    values = [f"ansible_user: {emit_text(host.user, flow=True)}"] if host.user else []
    values += [f"ansible_port: {host.port}"] if host.port else []
    return f" {{{', '.join(values)}}}" if values else ""


def _settings(role: str, settings: Mapping[str, Setting], column: int) -> Iterator[Line]:
    for name, setting in settings.items():
        key = (role, name, -1)
        indent = " " * column
        value = setting.value
        if name == "mounts" and isinstance(value, list):
            yield Line(f"{indent}mounts:", setting.at)
            for number, (_, mount, at) in enumerate(value):
                yield Line(f"{indent}  - {_flow(mount)}", at, (role, name, number))
        elif name in ("flags", "env") and isinstance(value, list):
            yield Line(f"{indent}{name}:", setting.at)
            for number, (entry, content, at) in enumerate(value):
                text = (
                    content
                    if name == "flags" and isinstance(content, str) and _NUMBER.fullmatch(content)
                    else _scalar(content)
                )
                yield Line(f"{indent}  {emit_key(entry, flow=False, as_json=False)}: {text}", at, (role, name, number))
        else:
            yield Line(f"{indent}{name}: {_flow(value)}", setting.at, key)


def _flow(value: object) -> str:
    """Return a value in flow style, on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow_part(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow_part(part) for part in value) + "]"
    return _scalar(value)


def _flow_part(value: object) -> str:
    return _flow(value) if isinstance(value, Mapping | list) else _scalar(value, flow=True)


def _scalar(value: object, *, flow: bool = False) -> str:
    if isinstance(value, Template):
        return f'"{value.text}"'
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    # An inventory would render braces as a template; foreign text is literal.
    return f"!unsafe {emit_text(value, flow=flow)}" if _BRACES.search(value) else emit_text(value, flow=flow)
