"""What kind of inventory a file is, told from its name and the first line that says something, with Ansible's answers."""

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
"""A line that stands in inventories, and hardly in a README."""
_PLUGIN = re.compile(r"plugin:\s+[\"']?([\w.]+)")
_INSPECTED_BYTES = 65536
"""Bytes that are looked at."""


class SourceKind(Enum):
    """Kinds of files that hold an inventory."""

    SCRIPT = auto()
    YAML = auto()
    INI = auto()
    TOML = auto()
    NOTHING = auto()


def detect_kind(path: str, data: bytes) -> SourceKind:
    """Return what the file at `path`, which begins with `data`, is to be read as.

    Ansible lets one reader after the other try, as the name allows: a program is run, then YAML, then INI. Which of the
    last two accepts depends on the content; to have one set of complaints, it is decided beforehand by the first line.
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
    """Whether a file in a directory of inventories is hardly one, by its name and what is in it.

    Such a file may be skipped where it cannot be read. One that is an inventory may not: its hosts would be missing.
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
    """Whether a file begins as no INI file does."""
    line = next(_lines(data), "")
    return bool(_YAML.match(line)) and not _SECTION.match(line)


def configured_plugin(data: bytes) -> str:
    """Return the inventory plugin that a YAML file configures, whatever the file is called; empty where it is none."""
    found = _PLUGIN.match(next(_lines(data.removeprefix(b"---")), ""))
    return found[1] if found else ""


def is_script(data: bytes) -> bool:
    """Whether a file names the program that runs it."""
    return data.startswith(b"#!")


def is_blank(data: bytes) -> bool:
    """Whether a file says nothing: no line of it, but for comments and YAML's own marks."""
    return len(data) < _INSPECTED_BYTES and all(line in _MARKS for line in _lines(data))


def _lines(data: bytes) -> Iterator[str]:
    """Yield the lines that are no comments, without the blanks around them."""
    for line in data[:_INSPECTED_BYTES].decode("utf-8-sig", errors="replace").splitlines():
        text = line.strip()
        if text and text[0] not in "#;":
            yield text
