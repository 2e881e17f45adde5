"""Parses `-e`, the extra variables of the command line."""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfprov.errors import InvalidInput, Position, Problem, Usage, one_line, printable
from tfprov.model.inventory import NAMESPACE, overlay
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.vault.decrypt import Vault
from tfprov.vault.redaction import mentions_secret, redact_line
from tfprov.yamltext.load import MAX_DEPTH, FileOverlay, parse, parse_json_or_yaml, read_bytes

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE = re.compile(r"\\(?:U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|N\{[^}]+\}|[\\'\"abfnrtv])")
_OPENING, _CLOSING = ("{{", "{%", "{#"), ("}}", "%}", "#}")


def parse_extra_vars(
    options: Sequence[str], vault: Vault | None = None, file_overlay: FileOverlay | None = None
) -> Mapping:
    """Return the variables of `-e` options: `key=value` pairs, YAML or JSON in braces, or `@FILE`; later options win.

    `key.sub=value` is short for a nested mapping (`-e tfprov.flags.train_steps=100`). Values of `key=value` are text,
    as in Ansible, except under `tfprov`, where they are read as YAML.
    """
    merged = Mapping()
    problems: list[Problem] = []
    for option in options:
        try:
            merged = overlay(merged, _parse_option(option, vault, file_overlay))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return merged


def extra_options(extra: AnyMapping[str, Any] | Sequence[str]) -> list[str]:
    """Return variables of a program as the texts of options. Raises Usage for values that YAML does not have."""
    if not isinstance(extra, AnyMapping):
        return [extra] if isinstance(extra, str) else list(extra)
    try:
        return [json.dumps(dict(extra))]
    except (TypeError, ValueError) as error:
        raise Usage(f"`extra`: {one_line(str(error))}", "its values are text, numbers, lists and mappings") from None


def _parse_option(option: str, vault: Vault | None, file_overlay: FileOverlay | None) -> Mapping:
    if option.strip() == "@":
        raise InvalidInput([Problem(Position("-e"), "`@` names no file", "write `-e @vars.yml`")])
    if option.startswith("@"):
        path = _expand_user(option[1:])
        data = read_bytes(path, Position(str(path)), fix="check the path after -e @", file_overlay=file_overlay)
        node = parse_json_or_yaml(data, str(path), start_from="write `name: value` lines", vault=vault)
    elif option.lstrip().startswith("{"):
        node = parse_json_or_yaml(option, "-e", vault=vault)
    else:
        return _parse_assignments(option)
    if not isinstance(node, Mapping):
        raise InvalidInput([Problem(node.at, "variables must be a mapping", "write `name: value` lines")])
    return node


def _expand_user(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no such user
        return Path(path)


def _parse_assignments(option: str) -> Mapping:
    merged = Mapping()
    words = list(_words(option))
    for number, word in enumerate(words):
        # A word after a password may be the rest of it, if its blanks are not quoted.
        repeated = "…" if any(map(mentions_secret, words[:number])) else printable(redact_line(word))
        try:
            name, equals, value = _split_assignment(word)
        except UnicodeDecodeError:  # `\N{…}` without such a name, or a number beyond Unicode
            what, fix = f"`{repeated}` has an escape that stands for no character", "write `\\\\` for a backslash"
            raise InvalidInput([Problem(Position("-e"), what, fix)]) from None
        path = name.split(".")
        if not equals or len(path) > MAX_DEPTH or not _NAME.fullmatch(path[0]) or "" in path:
            raise InvalidInput([Problem(Position("-e"), f"`{repeated}` is not a variable", _fix(word))])
        merged = overlay(merged, _nested_mapping(path, value, is_last=word is words[-1]))
    return merged


def _fix(word: str) -> str:
    if "=" not in word and (word.startswith(("./", "/")) or word.endswith((".yml", ".yaml", ".json"))):
        return f"write `-e @{printable(word)}` for a file"
    return "write `-e name=value`, `-e '{name: value}'` or `-e @file.yml`"


def _words(option: str) -> Iterator[str]:
    """Yield the words of `option`; blanks in quotes and templates do not separate words."""
    word, quote, depth = "", "", 0
    for offset, char in enumerate(option):
        if char in "\"'" and not option[:offset].endswith("\\") and quote in ("", char):
            quote = "" if quote else char
        depth += option.startswith(_OPENING, offset) - option.startswith(_CLOSING, offset)
        depth = max(depth, 0)
        if char in " \n" and not quote and not depth:
            if word:
                yield word
            word = ""
        else:
            word += char
    if quote or depth:
        what = f"`{printable(redact_line(option))}`: no closing {'quotation' if quote else 'brace'}"
        raise InvalidInput(
            [Problem(Position("-e"), what, "close the quote" if quote else "write `}}` behind a template")]
        )
    if word or not option.strip():
        yield word or option


def _split_assignment(word: str) -> tuple[str, str, str]:
    """Split a word into name, `=` and value, as Ansible does."""
    name, equals, value = _ESCAPE.sub(lambda escape: codecs.decode(escape[0], "unicode-escape"), word).partition("=")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" and value[-2] != "\\":
        value = value[1:-1]
    return name.strip(), equals, value


def _nested_mapping(path: Sequence[str], value: str, *, is_last: bool) -> Mapping:
    at = Position(f"-e {printable('.'.join(path))}")
    is_setting = path[0] == NAMESPACE and value
    node: Node = _parse_value(value, at, is_last=is_last) if is_setting else Scalar(value, at, value)
    for key in reversed(path):
        node = Mapping({key: node}, at, {key: Scalar(key, at, key)})
    assert isinstance(node, Mapping)
    return node


def _parse_value(text: str, at: Position, *, is_last: bool) -> Node:
    """Parse a setting as YAML; problems have the position of the option."""
    if text.startswith("{{"):  # the shell removed the quotes that YAML needs
        return Scalar(text, at, text)
    try:
        return _at_position(parse(text, at.file), at)
    except InvalidInput as error:
        if text[0] in "[{" and not is_last:  # the rest is a word of its own, as in Ansible
            what = f"a blank ends the value: `{printable(redact_line(text))}`"
            fix = f"quote it within the shell's quotes: `-e \"{at.file.removeprefix('-e ')}='…'\"`"
            raise InvalidInput([Problem(at, what, fix)]) from None
        raise InvalidInput(Problem(at, problem.what, problem.fix) for problem in error.problems) from None


def _at_position(node: Node, at: Position) -> Node:
    if isinstance(node, Mapping):
        entries = {key: _at_position(value, at) for key, value in node.entries.items()}
        return Mapping(entries, at, {key: replace(value, at=at) for key, value in node.keys.items()})
    if isinstance(node, Items):
        return Items(tuple(_at_position(item, at) for item in node.items), at)
    return replace(node, at=at)
