"""Reads inventories in Ansible's INI format."""

import ast
import io
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tfprov.errors import Position, one_line, printable
from tfprov.inventory.builder import InventoryBuilder
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.vault.redaction import mentions_secret, redact_line

SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?\Z")
"""A section header: `[worker]`, `[worker:vars]` or `[worker:children]`, maybe with a comment."""
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?\Z")
_VARIABLES = "for example `node1 ansible_host=10.0.0.1`; write each host on a line of its own"


def add_ini(builder: InventoryBuilder, text: str, file: str) -> None:
    """Add the inventory in `text` to `builder`, also its problems."""
    builder.begin_source(Position(file, 1, 1))
    reader = _IniReader(builder, file)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, line)
    reader.finish()


class _IniReader:
    """Reads line by line. A group may be named before its section, as a child or for its variables."""

    def __init__(self, builder: InventoryBuilder, file: str) -> None:
        self.builder, self.file = builder, file
        self.number = 0
        self.group = "ungrouped"
        self.read: Callable[[str, int], None] = self.host
        self.variables: dict[str, int] = {}
        self.parents: dict[str, list[tuple[str, Position]]] = {}
        """Groups that are children of others and have no section yet, with those parents."""
        self.undeclared: dict[str, Position] = {}
        """Groups that have only a `:vars` section yet."""

    def at(self, column: int) -> Position:
        """Return a position in the current line; `column` counts from 0."""
        return Position(self.file, self.number, column + 1)

    def scalar(self, text: str, column: int) -> Scalar:
        return Scalar(text, self.at(column), text)

    def report(self, column: int, what: str, fix: str) -> None:
        self.builder.report(self.at(column), what, fix)

    def line(self, number: int, raw: str) -> None:
        """Read a line; `number` counts from 1."""
        self.number = number
        line = raw.strip()
        column = len(raw) - len(raw.lstrip())
        if not line or line[0] in "#;":
            return
        if header := SECTION.match(line):
            self.section(header, column)
        elif line.startswith("[") and (line.endswith("]") or "]" not in line):
            self.read = self.skip
            what = f"`{printable(line)}` is not a section header"
            self.report(column, what, "for example `[worker]`, `[worker:vars]` or `[worker:children]`, without blanks")
        else:
            self.read(line, column)

    def section(self, header: re.Match[str], column: int) -> None:
        name, kind = header[1], header[2] or "hosts"
        readers = {"hosts": self.host, "vars": self.variable, "children": self.child}
        self.read, self.variables, self.group = self.skip, {}, name
        if kind not in readers:
            what = f"a section of the kind `{printable(kind)}`"
            self.report(column + header.start(2), what, "write `:vars`, `:children`, or nothing for hosts")
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
        """Add the group to the parents that named it before its section."""
        for parent, at in self.parents.pop(name, ()):
            self.builder.add_child(parent, name, at)

    def skip(self, line: str, column: int) -> None:
        """Skip a line of an invalid section."""

    def child(self, line: str, column: int) -> None:
        group = _GROUP.match(line)
        if not group:
            self.report(column, f"`{printable(line)}` is not the name of a group", "write one group per line")
        elif group[1] in self.builder.groups and group[1] not in self.parents:
            self.builder.add_child(self.group, group[1], self.at(column))
        else:
            self.parents.setdefault(group[1], []).append((self.group, self.at(column)))

    def variable(self, line: str, column: int) -> None:
        before, equals, after = line.partition("=")
        name = before.rstrip()
        if not equals or not name:
            what = f"`{printable(redact_line(line))}` is not a variable"
            self.report(column, what, "for example `ansible_user=trainer`")
        elif name in self.variables:
            self.report_duplicate(name, column, f" (first on line {self.variables[name]})")
        else:
            self.variables[name] = self.number
            start = column + len(before) + 1 + len(after) - len(after.lstrip())
            key = self.scalar(name, column)
            self.builder.set_vars(self.group, self.mapping({name: (key, after.strip(), start)}))

    def host(self, line: str, column: int) -> None:
        try:
            words = [(column + start, word) for start, word in _words(line)]
        except ValueError as error:
            what = f"`{printable(redact_line(line))}`: {one_line(str(error)).lower()}"
            self.report(column, what, "close the quote" if "quotation" in what else "remove the backslash at its end")
            return
        variables: dict[str, tuple[Scalar, str, int]] = {}
        for number, (start, word) in enumerate(words[1:], start=1):
            name, equals, value = word.partition("=")
            if not equals or not name:
                # A word after a password may be the rest of it, if its blanks are not quoted.
                secret = any(mentions_secret(before) for _, before in words[:number])
                self.report(start, f"`{'…' if secret else printable(word)}` is not a variable of a host", _VARIABLES)
            elif name in variables:
                self.report_duplicate(name, start, " on this line")
            else:
                variables[name] = self.scalar(name, start), value, start + len(name) + 1
        if words and not self.is_misplaced(words[0][1], column):
            self.builder.add_hosts(self.group, self.scalar(words[0][1], column), self.mapping(variables))

    def is_misplaced(self, word: str, column: int) -> bool:
        """Whether a line begins with YAML or a variable instead of a host; then add a problem."""
        if word == "---" or (word.endswith(":") and len(word) > 1):
            self.report(column, f"`{printable(word)}` looks like YAML", "call a YAML inventory .yml, or remove it")
        elif "=" in word:
            what = f"`{printable(redact_line(word))}` where a host should be"
            self.report(column, what, f"put variables under `[{self.group}:vars]`, or behind a host")
        else:
            return False
        return True

    def report_duplicate(self, name: str, column: int, first: str) -> None:
        self.report(column, f"`{printable(name)}` is set twice{first}", "keep one of them")

    def mapping(self, variables: dict[str, tuple[Scalar, str, int]]) -> Mapping:
        entries = {name: self.value(name, text, column) for name, (_, text, column) in variables.items()}
        return Mapping(entries, self.at(0), {name: key for name, (key, _, _) in variables.items()})

    def value(self, name: str, text: str, column: int) -> Node:
        """Return a value: a Python literal, such as `8080` or `['a']`, or else text."""
        at = self.at(column)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `1if` will be an error one day
                data = ast.literal_eval(text)
            str(data)  # ValueError for a number too long to be shown; one in decimal digits is text as well
        except (ValueError, SyntaxError):
            data = text
        except (TypeError, MemoryError, RecursionError):
            repeated = "…" if mentions_secret(name) else printable(text)
            self.builder.report(at, f"`{repeated}` cannot be read as a Python literal", "quote it twice: \"'…'\"")
            data = text
        return _node(data, at, text)

    def finish(self) -> None:
        """Add problems about groups that are named and have no section."""
        for name, at in self.undeclared.items():
            what = f"variables for the group `{printable(name)}`, which nothing declares"
            self.builder.report(at, what, f"add `[{printable(name)}]`, or correct the name")
        for name, parents in self.parents.items():
            for parent, at in parents:
                what = f"`{printable(parent)}` has the child `{printable(name)}`, which nothing declares"
                self.builder.report(at, what, f"add `[{printable(name)}]`, or correct the name")


def _words(line: str) -> Iterator[tuple[int, str]]:
    """Yield the words of a line as a shell splits it, each with its offset."""
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
    """Return a Python literal as a node: tuples and sets become lists, types that YAML lacks become text, as in Ansible."""
    if isinstance(data, dict):
        keys = {str(key): Scalar(key, at, str(key), quoted=True) for key in data}
        return Mapping({str(key): _node(value, at, str(value)) for key, value in data.items()}, at, keys)
    if isinstance(data, list | tuple | set):
        return Items(tuple(_node(item, at, str(item)) for item in data), at)
    if data is ...:
        data = "..."
    elif isinstance(data, complex):
        data = str(data)
    elif isinstance(data, bytes):  # no templates to Ansible
        return Scalar(data.decode(errors="surrogateescape"), at, text, literal=True)
    return Scalar(data, at, text, quoted=True)
