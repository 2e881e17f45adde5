"""Parses YAML and JSON files to nodes with positions; decrypts files that ansible-vault encrypted as a whole."""

import json
import os
import re
from collections.abc import Callable
from collections.abc import Mapping as AbstractMapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.vault.decrypt import HEADER, Vault
from tfprov.vault.redaction import mark_secrets
from tfprov.yamltext import syntax_errors
from tfprov.yamltext.parser import MAX_DEPTH, PARSER, compose

__all__ = ["MAX_BYTES", "MAX_DEPTH", "decode", "load_file", "parse", "parse_encrypted", "read_bytes"]

T = TypeVar("T")
MAX_BYTES = 1_000_000

FileOverlay = AbstractMapping[str, bytes]
"""Contents that replace those of files, by their real paths: an edit is checked before it is written."""

_INIT = "start from `tfprov init`"


def load_file(
    path: Path,
    *,
    fix: str = "check the path after -i",
    start_from: str = _INIT,
    vault: Vault | None = None,
) -> Node:
    """Return the only document of the file at `path`; InvalidInput names the first position that is not YAML.

    `fix` is the advice for a missing file, `start_from` for an empty one. `vault` decrypts encrypted values.
    """
    return parse(read_bytes(path, Position(str(path)), fix=fix), str(path), start_from=start_from, vault=vault)


def read_bytes(path: Path, at: Position, *, fix: str, name: str = "", file_overlay: FileOverlay | None = None) -> bytes:
    """Return the content of the file at `path`, at most one byte more than MAX_BYTES; errors are InvalidInput at `at`.

    `name` begins the messages where `at` is not in the file itself. `file_overlay` replaces the content of some files.
    """
    if file_overlay and (content := file_overlay.get(os.path.realpath(path))) is not None:
        return content
    try:
        with path.open("rb") as file:  # not read_bytes: `-i /dev/zero` has no end
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _invalid(at, f"{name}does not exist" if name else "no such file", fix) from None
    except IsADirectoryError:
        raise _invalid(at, f"{name}is a directory, not a file", "give a file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = str(error) if isinstance(error, ValueError) else error.strerror or str(error)
        what = f"{name}cannot be read: {reason.lower()}" if name else reason.lower()
        raise _invalid(at, what, "give a readable file") from None


def parse(data: bytes | str, name: str, *, start: int = 1, start_from: str = _INIT, vault: Vault | None = None) -> Node:
    """Return the only document in `data`; `name` is the file in messages, `start` the number of its first line.

    `vault` decrypts an encrypted file at once, and an encrypted value when it is first used.
    """
    if len(data) > MAX_BYTES:
        raise _invalid(Position(name), f"larger than {MAX_BYTES:,} bytes", "split it into several files")
    text, vault = decode(data, name, start), vault or Vault()
    if text.startswith(HEADER):
        return mark_secrets(
            parse_encrypted(
                text, name, start, vault, lambda plaintext: _compose(plaintext, name, start, start_from, vault)
            )
        )
    return _compose(text, name, start, start_from, vault)


def parse_encrypted(text: str, name: str, start: int, vault: Vault, reader: Callable[[str], T]) -> T:
    """Return the result of `reader` for the decrypted file; InvalidInput names positions and repeats no plaintext."""
    plaintext = vault.decrypt(text, Position(name, start, 1))
    try:
        return reader(plaintext)
    except InvalidInput as error:
        positions = dict.fromkeys(problem.at for problem in error.problems)
    what, fix = "not valid once it is decrypted", "see `ansible-vault edit`; lines count as they do there"
    raise InvalidInput(Problem(at, what, fix) for at in positions)


def _compose(text: str, name: str, start: int, start_from: str, vault: Vault) -> Node:
    try:
        document = compose(text, name, start, vault)
    except yaml.reader.ReaderError as error:
        before = _text_before(text, error.position)
        at, character = _position_after(before, name, start), printable(text[len(before) : len(before) + 1])
        raise _invalid(at, f"the character `{character}`, which YAML does not allow", "remove it") from None
    except yaml.MarkedYAMLError as error:
        raise InvalidInput([syntax_errors.explain(error, text, name, start)]) from None
    if document is None:
        raise _invalid(Position(name), "empty", start_from)
    if isinstance(document, Scalar) and not document.text:  # a `---` alone: libyaml puts the value behind the end
        return replace(document, at=Position(name, start, 1))
    if type(document) is Scalar and document.text.startswith(HEADER):
        what = f"`{HEADER}` begins an encrypted file, and this one begins with something else"
        raise _invalid(document.at, what, "remove what stands before it, also comments and empty lines")
    return document


def _text_before(text: str, position: int) -> str:
    """Return the text before `position`, which libyaml counts in bytes and PyYAML's own reader in characters."""
    if PARSER is yaml.SafeLoader:
        return text[:position]
    return text.encode()[:position].decode(errors="ignore")


def decode(data: bytes | str, name: str, start: int = 1) -> str:
    """Return the text of a file; InvalidInput at the first byte that is not UTF-8."""
    try:
        # Text comes from the command line, where Python turns bytes that are not UTF-8 into lone surrogates.
        return (data.encode() if isinstance(data, str) else data).decode("utf-8-sig")
    except UnicodeEncodeError as error:
        before = error.object[: error.start]
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
    raise _invalid(_position_after(before, name, start), "not UTF-8 text", "write it as UTF-8")


def _position_after(before: str, name: str, start: int) -> Position:
    """Return the position that follows the text `before`."""
    lines = syntax_errors.BREAK.split(before)
    return Position(name, len(lines) - 1 + start, len(lines[-1]) + 1)


def _invalid(at: Position, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])


_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
PAIR_LENGTH = 12
"""Characters of a surrogate pair, by which JSON escapes a character beyond U+FFFF, and which YAML refuses."""


def parse_json_or_yaml(data: bytes | str, name: str, *, start_from: str = _INIT, vault: Vault | None = None) -> Node:
    """Return the only document in `data`, which is JSON or YAML; the arguments are those of `parse`."""
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    if len(data) > MAX_BYTES or not text.lstrip("\ufeff \t\r\n").startswith("{") or not _is_json(text):
        return parse(data, name, start_from=start_from, vault=vault)
    return _with_numbers(parse(_join_pairs(text), name, start_from=start_from, vault=vault))


def without_pairs(text: str) -> tuple[str, list[int]]:
    """Return `text` with the character for each surrogate pair of a JSON text, and the offsets of all pairs in `text`."""
    pairs = [pair.start() for pair in _PAIR.finditer(text)]
    return (_join_pairs(text), pairs) if pairs and _is_json(text) else (text, [])


def _join_pairs(text: str) -> str:
    return _PAIR.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _with_numbers(node: Node) -> Node:
    """Return `node` with JSON's numbers: `1e3` is a number in JSON, and text in YAML 1.1."""
    if isinstance(node, Mapping):
        return Mapping({key: _with_numbers(value) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(map(_with_numbers, node.items)), node.at)
    is_number = isinstance(node, Scalar) and not node.quoted and isinstance(node.data, str)
    return replace(node, data=json.loads(node.text), quoted=True) if is_number else node
