"""Inventories in Ansible's INI format, which are read and never written."""

import ast
import io
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tfprov.errors import Position, one_line, shown
from tfprov.inventory.builder import InventoryBuilder
from tfprov.model.node import Items, Mapping, Node, Scalar
from tfprov.vault.redaction import mentions_secret, redact_line

SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?\Z")
"""The head of a section: `[worker]`, `[worker:vars]` or `[worker:children]`, and a comment."""
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?\Z")
_VARIABLES = "for example `node1 ansible_host=10.0.0.1`; several hosts stand on lines of their own"


def add_ini(builder: InventoryBuilder, text: str, file: str) -> None:
    """Add what the inventory in `text` says; its problems go to the builder's."""
    builder.begin(Position(file, 1, 1))
    reader = _IniReader(builder, file)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, line)
    reader.finish()


class _IniReader:
    """Reads one line after the other. A group may be named before its section comes, as a child or for its variables."""

    def __init__(self, builder: InventoryBuilder, file: str) -> None:
        self.builder, self.file = builder, file
        self.number = 0
        self.group = "ungrouped"
        self.read: Callable[[str, int], None] = self.host
        self.given: dict[str, int] = {}
        self.parents: dict[str, list[tuple[str, Position]]] = {}
        """The groups that are children of others and have no section yet, with those parents."""
        self.undeclared: dict[str, Position] = {}
        """The groups of which only the variables are stated so far."""

    def at(self, column: int) -> Position:
        """Return a place in the current line; columns count from 0 here."""
        return Position(self.file, self.number, column + 1)

    def scalar(self, text: str, column: int) -> Scalar:
        return Scalar(text, self.at(column), text, quoted=True)

    def report(self, column: int, what: str, fix: str) -> None:
        self.builder.report(self.at(column), what, fix)

    def line(self, number: int, raw: str) -> None:
        """Read the line with this number."""
        self.number = number
        line = raw.strip()
        column = len(raw) - len(raw.lstrip())
        if not line or line[0] in "#;":
            return
        if found := SECTION.match(line):
            self.section(found, column)
        elif line.startswith("[") and (line.endswith("]") or "]" not in line):
            self.read = self.nothing
            what = f"`{shown(line)}` is not the head of a section"
            self.report(column, what, "for example `[worker]`, `[worker:vars]` or `[worker:children]`, without blanks")
        else:
            self.read(line, column)

    def section(self, found: re.Match[str], column: int) -> None:
        name, kind = found[1], found[2] or "hosts"
        readers = {"hosts": self.host, "vars": self.variable, "children": self.child}
        self.read, self.given, self.group = self.nothing, {}, name
        if kind not in readers:
            what = f"a section of the kind `{shown(kind)}`"
            self.report(column + found.start(2), what, "write `:vars`, `:children`, or nothing for hosts")
            return
        known = name in self.builder.groups
        if not self.builder.add_group(self.scalar(name, column + 1)):
            return
        if kind == "vars" and not known and name not in self.parents:
            self.undeclared[name] = self.at(column + 1)
        elif kind != "vars":
            self.undeclared.pop(name, None)
            self.adopt(name)
        self.read = readers[kind]

    def adopt(self, name: str) -> None:
        """Put the group below the parents that were waiting for it."""
        for parent, at in self.parents.pop(name, ()):
            self.builder.add_child(parent, name, at)

    def nothing(self, line: str, column: int) -> None:
        """Pass over a line whose section is not known."""

    def child(self, line: str, column: int) -> None:
        found = _GROUP.match(line)
        if not found:
            self.report(column, f"`{shown(line)}` is not the name of a group", "write one group per line")
        elif found[1] in self.builder.groups and found[1] not in self.parents:
            self.builder.add_child(self.group, found[1], self.at(column))
        else:
            self.parents.setdefault(found[1], []).append((self.group, self.at(column)))

    def variable(self, line: str, column: int) -> None:
        before, equals, after = line.partition("=")
        name = before.rstrip()
        if not equals or not name:
            what = f"`{shown(redact_line(line))}` is not a variable"
            self.report(column, what, "for example `ansible_user=trainer`")
        elif name in self.given:
            self.twice(name, column, f" (first on line {self.given[name]})")
        else:
            self.given[name] = self.number
            start = column + len(before) + 1 + len(after) - len(after.lstrip())
            key = self.scalar(name, column)
            self.builder.set_vars(self.group, self.mapping({name: (key, after.strip(), start)}))

    def host(self, line: str, column: int) -> None:
        try:
            words = [(column + start, word) for start, word in _words(line)]
        except ValueError as error:
            what = f"`{shown(redact_line(line))}`: {one_line(str(error)).lower()}"
            self.report(column, what, "close the quote" if "quotation" in what else "remove the backslash at its end")
            return
        found: dict[str, tuple[Scalar, str, int]] = {}
        for number, (start, word) in enumerate(words[1:], start=1):
            name, equals, value = word.partition("=")
            if not equals or not name:
                # What stands behind a password may be the rest of it, when its blanks are not quoted.
                secret = any(mentions_secret(before) for _, before in words[:number])
                self.report(start, f"`{'…' if secret else shown(word)}` is not a variable of a host", _VARIABLES)
            elif name in found:
                self.twice(name, start, " on this line")
            else:
                found[name] = self.scalar(name, start), value, start + len(name) + 1
        if words and not self.is_misplaced(words[0][1], column):
            self.builder.add_hosts(self.group, self.scalar(words[0][1], column), self.mapping(found))

    def is_misplaced(self, word: str, column: int) -> bool:
        """Whether a line begins with what is no host, but something else in the wrong place."""
        if word == "---" or (word.endswith(":") and len(word) > 1):
            self.report(column, f"`{shown(word)}` looks like YAML", "call a YAML inventory .yml, or remove it")
        elif "=" in word:
            what = f"`{shown(redact_line(word))}` where a host should be"
            self.report(column, what, f"put variables under `[{self.group}:vars]`, or behind a host")
        else:
            return False
        return True

    def twice(self, name: str, column: int, first: str) -> None:
        self.report(column, f"`{shown(name)}` is given twice{first}", "keep one of them")

    def mapping(self, found: dict[str, tuple[Scalar, str, int]]) -> Mapping:
        entries = {name: self.value(name, text, column) for name, (_, text, column) in found.items()}
        return Mapping(entries, self.at(0), {name: key for name, (key, _, _) in found.items()})

    def value(self, name: str, text: str, column: int) -> Node:
        """Return a value: what Python makes of it where it is one of Python's, such as `8080` or `['a']`, else text."""
        at = self.at(column)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `1if` will be an error one day
                data = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            data = text
        except (TypeError, MemoryError, RecursionError):
            said = "…" if mentions_secret(name) else shown(text)
            self.builder.report(at, f"`{said}` cannot be read as Python's", "quote it twice: \"'…'\"")
            data = text
        return _node(data, at, text)

    def finish(self) -> None:
        """Complain about groups that are named and never declared."""
        for name, at in self.undeclared.items():
            what = f"variables for the group `{shown(name)}`, which nothing declares"
            self.builder.report(at, what, f"add `[{shown(name)}]`, or correct the name")
        for name, parents in self.parents.items():
            for parent, at in parents:
                what = f"`{shown(parent)}` has the child `{shown(name)}`, which nothing declares"
                self.builder.report(at, what, f"add `[{shown(name)}]`, or correct the name")


def _words(line: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a line as a shell would find them, each with the place where it begins."""
    stream = io.StringIO(line)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split = True
    while True:
        start = stream.tell()
        while start < len(line) and line[start] in lexer.whitespace:
            start += 1
        word = lexer.get_token()
        if word is None:
            return
        yield start, word


def _node(data: Any, at: Position, text: str) -> Node:
    """Return what Python read; Ansible makes lists of tuples and sets, and text of what YAML does not have."""
    if isinstance(data, dict):
        keys = {str(key): Scalar(key, at, str(key), quoted=True) for key in data}
        return Mapping({str(key): _node(value, at, str(value)) for key, value in data.items()}, at, keys)
    if isinstance(data, list | tuple | set):
        return Items(tuple(_node(item, at, str(item)) for item in data), at)
    if data is ...:
        data = "..."
    elif isinstance(data, complex):
        data = str(data)
    elif isinstance(data, bytes):  # Ansible does not take them for templates
        return Scalar(data.decode(errors="surrogateescape"), at, text, quoted=True, literal=True)
    return Scalar(data, at, text, quoted=True)
