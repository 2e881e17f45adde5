"""Composes nodes with positions from PyYAML's events.

PyYAML's own composer recurses, and keeps the last of two equal keys. This one keeps a stack of its own: deep nesting, an
alias bomb and a duplicate key are errors with a line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.model.yaml_node import EncryptedValue, Items, Mapping, Node, Scalar
from tfprov.vault.decrypt import HEADER, Vault
from tfprov.vault.environment import VARIABLE, read_variable
from tfprov.vault.redaction import mentions_secret
from tfprov.yamltext.yaml11 import (
    ScalarError,
    construct_scalar,
    is_scalar_tag,
    resolve_plain_tag,
    resolve_tag,
    short_tag,
)

MAX_DEPTH = 32
MAX_NODES = 200_000
"""Counting every use of an alias: enough for a thousand hosts with 100 values each."""

PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is compiled in: 8 times faster
_ENCRYPTED = ("!vault", "!vault-encrypted")
"""Ansible's tags for a value that ansible-vault encrypted."""
_BLANK_LOOKALIKE = re.compile(r"[\u00a0\u2007\u200b\u202f\u2060\u3000]")


def _invalid(at: Position, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])


@dataclass
class _OpenCollection:
    """A collection whose end event is still to come."""

    at: Position
    anchor: str | None
    items: list[Node] | None
    entries: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Scalar] = field(default_factory=dict)
    merged: list[Mapping] = field(default_factory=list)
    key: Scalar | None = None
    size: int = 1
    height: int = 1

    @property
    def awaits_key(self) -> bool:
        """Whether the next node is a key."""
        return self.items is None and self.key is None


def compose(text: str, name: str, start: int, vault: Vault) -> Node | None:
    """Return the document in `text`, or None if there is none; errors are InvalidInput or PyYAML's own.

    `name` is the file in messages, `start` the number of its first line. `vault` decrypts values when they are first used.
    """
    return _Composer(name, start, vault).compose(text)


class _Composer:
    def __init__(self, name: str, start: int, vault: Vault) -> None:
        self.name, self.start, self.vault = name, start, vault
        self.anchors: dict[str, tuple[Node, int, int]] = {}
        self.stack: list[_OpenCollection] = []
        self.document: Node | None = None

    def compose(self, text: str) -> Node | None:
        handlers = self.handlers()
        for event in yaml.parse(text, Loader=PARSER):
            if handler := handlers.get(type(event)):
                handler(event)
        return self.document

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            yaml.ScalarEvent: lambda event: self.add(self.scalar(event), 1, 0, event.anchor),
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.AliasEvent: self.alias,
            yaml.DocumentStartEvent: self.begin,
        }

    def at(self, event: Any) -> Position:
        return Position(self.name, event.start_mark.line + self.start, event.start_mark.column + 1)

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            what = f"unknown alias {self.quoted(f'*{event.anchor}')}"
            raise _invalid(self.at(event), what, "define the anchor before its use")
        node, size, height = self.anchors[event.anchor]
        if self.stack and self.stack[-1].awaits_key:
            node = self.aliased_key(node, self.at(event))
        self.add(node, size, height, None)

    def aliased_key(self, node: Node, at: Position) -> Scalar:
        if not isinstance(node, Scalar):
            raise _invalid(at, "a key that is not a single value", "write a name")
        if node.secret:
            raise _invalid(at, "a secret as a name", "write the name itself")
        return replace(node, at=at)

    def begin(self, event: Any) -> None:
        if self.document is not None:
            raise _invalid(self.at(event), "a second document", "keep one document per file")

    def quoted(self, text: str) -> str:
        """Return `text` as messages show it; a password is not shown."""
        secret = any(opened.key is not None and mentions_secret(opened.key.text) for opened in self.stack)
        return "`…`" if secret else f"`{printable(text)}`"

    def scalar(self, event: Any) -> Scalar:
        quoted = event.style not in (None, "")  # plain style is "" in libyaml, and None in PyYAML's own parser
        at = self.at(event)
        if event.tag == "!unsafe":
            return Scalar(event.value, at, event.value, quoted=True, literal=True)
        if event.tag in _ENCRYPTED:
            return self.encrypted(event, at)
        if event.tag == "!env":
            return self.from_environment(event, at)
        tag = resolve_tag(event, quoted=quoted)
        if not is_scalar_tag(tag):
            self.refuse_tag(tag, at)
        try:
            return Scalar(construct_scalar(tag, event.value), at, event.value, quoted)
        except ScalarError as error:
            raise _invalid(at, f"{self.quoted(event.value)} {error}", "quote it") from None

    def encrypted(self, event: Any, at: Position) -> Scalar:
        text = event.value
        if self.stack and self.stack[-1].awaits_key:
            raise _invalid(at, "an encrypted name", "encrypt values only")
        if resolve_plain_tag(text) != "str":  # Ansible ignores quotes behind this tag
            raise _invalid(
                at,
                "`!vault` in front of a value that is not text",
                "put there what `ansible-vault encrypt_string` prints",
            )
        if not text.startswith(HEADER):
            self.vault.warn_unencrypted(at)
        return Scalar(EncryptedValue(text, self.vault.decrypt), at, quoted=True, literal=True, secret=True)

    def from_environment(self, event: Any, at: Position) -> Scalar:
        """Return a value that `!env NAME` takes from the controller's environment when it is used: a secret."""
        if self.stack and self.stack[-1].awaits_key:
            raise _invalid(at, "a name from the environment", "take values from there only")
        if not VARIABLE.fullmatch(event.value):
            written = f"!env {printable(event.value)}".rstrip()
            raise _invalid(at, f"`{written}` names no environment variable", "write `!env NAME`")
        data = EncryptedValue(event.value, read_variable, event.value)
        return Scalar(data, at, quoted=True, literal=True, secret=True)

    def refuse_tag(self, tag: str, at: Position) -> None:
        name = tag if tag.startswith("!") else f"!!{tag}"
        raise _invalid(at, f"the tag {self.quoted(name)} is not allowed here", "write a plain value")

    def open(self, event: Any) -> None:
        at = self.at(event)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!") and short_tag(event.tag) != ("seq" if is_list else "map"):
            self.refuse_tag(short_tag(event.tag), at)
        if len(self.stack) >= MAX_DEPTH:
            raise _invalid(at, f"nested more than {MAX_DEPTH} levels deep", "flatten it")
        if self.stack and self.stack[-1].awaits_key:
            self.refuse_key(at, is_list=is_list)
        self.stack.append(_OpenCollection(at, event.anchor, [] if is_list else None))

    def refuse_key(self, at: Position, *, is_list: bool) -> None:
        outer = self.stack[-1].at
        # YAML reads `{{ x }}` as a mapping in a mapping.
        if not is_list and (outer.line, outer.column + 1) == (at.line, at.column):
            raise _invalid(outer, "a template without quotes around it", 'write "{{ … }}", and quote the whole value')
        raise _invalid(at, "a key that is not a single value", "quote a value that starts with `{` or `[`")

    def close(self, _event: Any) -> None:
        done = self.stack.pop()
        node = Items(tuple(done.items), done.at) if done.items is not None else self.mapping(done)
        self.add(node, done.size, done.height, done.anchor)

    def mapping(self, done: _OpenCollection) -> Mapping:
        entries, keys = done.entries, done.keys
        for below in done.merged:  # `<<`: keys of this mapping win, then those of the last `<<`, the first of its list
            entries = {**below.entries, **entries}
            keys = {**below.keys, **keys}
        return Mapping(entries, done.at, keys)

    def add(self, node: Node, size: int, height: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node, size, height
        if not self.stack:
            self.document = node
            return
        parent = self.stack[-1]
        parent.size += size
        parent.height = max(parent.height, height + 1)
        if parent.size > MAX_NODES:
            raise _invalid(node.at, f"more than {MAX_NODES:,} values once aliases are expanded", "write fewer aliases")
        if len(self.stack) + height > MAX_DEPTH:
            raise _invalid(node.at, f"nested more than {MAX_DEPTH} levels deep once aliases are expanded", "flatten it")
        if parent.items is not None:
            parent.items.append(node)
        else:
            self.add_entry(parent, node)

    def add_entry(self, parent: _OpenCollection, node: Node) -> None:
        if parent.key is None:
            parent.key = self.key(parent, node)
        elif parent.key.text == "<<" and not parent.key.quoted:
            parent.merged[:0] = self.merged(node)
            parent.key = None
        else:
            parent.entries[parent.key.text] = node
            parent.keys[parent.key.text] = parent.key
            parent.key = None

    def key(self, parent: _OpenCollection, node: Node) -> Scalar:
        assert isinstance(node, Scalar), "others are refused where they begin"
        if not node.quoted and (lookalike := _BLANK_LOOKALIKE.search(node.text)):
            what = f"a key with the character U+{ord(lookalike[0]):04X}, which only looks like a blank"
            raise _invalid(node.at, what, "write blanks there")
        if node.text in parent.entries:
            first = parent.keys[node.text].at.line
            raise _invalid(
                node.at, f"{self.quoted(node.text)} is set twice (first on line {first})", "keep one of them"
            )
        return node

    def merged(self, node: Node) -> list[Mapping]:
        items = list(node.items) if isinstance(node, Items) else [node]
        if not all(isinstance(item, Mapping) for item in items):
            raise _invalid(node.at, "`<<` merges mappings only", "point it at a mapping's anchor")
        return [item for item in items if isinstance(item, Mapping)]
