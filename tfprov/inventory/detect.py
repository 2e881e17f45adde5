"""Detects the format of an inventory file by its name and its first line, as Ansible does."""

import os
import re
from collections.abc import Iterator
from enum import Enum, auto

from tfprov.vault.decrypt import HEADER

_YAML_EXTENSIONS = (".yaml", ".yml", ".json")
_SECTION = re.compile(r"\[[^:\]\s]+(:\w+)?\]\s*(#.*)?\Z")
_YAML = re.compile(r"---|%YAML|[{&!\"']|- |[^\s=\[]+:(\s|\Z)")
_MARKS = ("---", "...")
_PROGRAM = (b"#!", b"\x7fELF")
_INI_EXTENSIONS = ("", ".ini", ".inv", ".inventory", ".hosts", ".host", ".list", ".lst")
_INVENTORY_LINE = re.compile(r"^\s*(?:\[[^\]\n]+\]\s*(?:[#;].*)?$|(?:all|hosts|children|vars)\s*:)", re.MULTILINE)
"""A line of an inventory that a README hardly has."""
_PLUGIN = re.compile(r"plugin:\s+[\"']?([\w.]+)")
_INSPECTED_BYTES = 65536
"""Bytes of a file that are inspected."""


class SourceKind(Enum):
    """The formats of inventory files."""

    SCRIPT = auto()
    YAML = auto()
    INI = auto()
    TOML = auto()
    NOTHING = auto()


def detect_kind(path: str, data: bytes) -> SourceKind:
    """Return the format of the file at `path`, which begins with `data`.

    Ansible tries one inventory plugin after the other: script, YAML, INI. Here the first line decides between the last two,
    so that the errors of only one of them are reported.
    """
    extension = os.path.splitext(path)[1]  # noqa: PTH122  as Ansible splits it
    line = next(_lines(data), None)
    if data.startswith(_PROGRAM) and os.access(path, os.X_OK):
        return SourceKind.SCRIPT
    if is_blank(data):
        return SourceKind.NOTHING
    if extension == ".toml":
        return SourceKind.TOML
    if data.startswith(HEADER.encode()):
        return SourceKind.YAML
    if extension in _YAML_EXTENSIONS:
        return SourceKind.INI if line and _SECTION.match(line) else SourceKind.YAML
    return SourceKind.YAML if not extension and looks_like_yaml(data) else SourceKind.INI


def is_unlikely_inventory(path: str, data: bytes) -> bool:
    """Whether a file in a directory of inventories is unlikely to be an inventory, by its name and content.

    Such a file may be skipped if it cannot be parsed. An inventory may not: its hosts would be missing.
    """
    extension = os.path.splitext(path)[1]  # noqa: PTH122
    if extension in (*_YAML_EXTENSIONS, ".toml") or data.startswith(HEADER.encode()):
        return False
    if extension in _INI_EXTENSIONS:
        return _INVENTORY_LINE.search(data.decode("utf-8-sig", errors="replace")) is None
    return True


def has_yaml_extension(path: str) -> bool:
    """Whether Ansible would try to read the file as YAML."""
    return os.path.splitext(path)[1] in ("", *_YAML_EXTENSIONS)  # noqa: PTH122


def looks_like_yaml(data: bytes) -> bool:
    """Whether the first line of a file is YAML and not INI."""
    line = next(_lines(data), "")
    return bool(_YAML.match(line)) and not _SECTION.match(line)


def configured_plugin(data: bytes) -> str:
    """Return the name of the inventory plugin that a file configures, or an empty text."""
    match = _PLUGIN.match(next(_lines(data.removeprefix(b"---")), ""))
    return match[1] if match else ""


def is_script(data: bytes) -> bool:
    """Whether a file begins with a shebang."""
    return data.startswith(b"#!")


def is_blank(data: bytes) -> bool:
    """Whether a file has nothing but comments, blank lines and YAML's document marks."""
    return len(data) < _INSPECTED_BYTES and all(line in _MARKS for line in _lines(data))


def _lines(data: bytes) -> Iterator[str]:
    """Yield the lines that are not blank and no comments, stripped."""
    for line in data[:_INSPECTED_BYTES].decode("utf-8-sig", errors="replace").splitlines():
        text = line.strip()
        if text and text[0] not in "#;":
            yield text
