"""Files of environment variables, in docker's format: `env_file:`.

# a comment
NAME=value      everything behind the first `=`, as it stands: quotes and `$` mean nothing
NAME            the controller's variable of that name, if it is set
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem, hide_secret, printable
from tfprov.inventory.vars_files import base_directory
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.settings.connection_vars import expand_path
from tfprov.templating.host_values import TemplateProblems
from tfprov.vault.decrypt import HEADER
from tfprov.vault.redaction import mentions_secret
from tfprov.yamltext.load import MAX_BYTES, decode, read_bytes

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FORMAT = "write `NAME=value`, one a line"


def with_env_files(settings: Mapping, unread: TemplateProblems) -> Mapping:
    """Return settings whose `env` has the variables of `env_file` as well; problems of these files go into `unread`.

    A later file wins over an earlier one, and `env` over all files.
    """
    variables = Mapping()
    for written in _paths(settings.get("env_file")):
        try:
            variables = _over(variables, _read(written))
        except InvalidInput as error:
            unread.include(error, written.at)
    env = settings.get("env")
    if not variables.entries or (env is not None and not isinstance(env, Mapping)):
        return settings
    merged = variables if env is None else _over(variables, env)
    return replace(settings, entries={**settings.entries, "env": merged})


def env_file_paths(settings: Mapping) -> Iterator[Path]:
    """Yield the files that `env_file` names."""
    for written in _paths(settings.get("env_file")):
        yield _resolve(written)


def _paths(node: Node | None) -> Iterator[Scalar]:
    for one in node.items if isinstance(node, Items) else [node]:
        if isinstance(one, Scalar) and isinstance(one.data, str) and one.data.strip():
            yield one


def _resolve(written: Scalar) -> Path:
    base = Path() if written.at.file.startswith("-e") else base_directory(written.at.file)
    return Path(os.path.normpath(base / expand_path(str(written.data))))


def _over(lower: Mapping, higher: Mapping) -> Mapping:
    return Mapping(lower.entries | higher.entries, higher.at, lower.keys | higher.keys)


def _read(written: Scalar) -> Mapping:
    path = _resolve(written)
    data = read_bytes(path, written.at, fix="correct `env_file`", name=f"`{printable(path)}` ")
    name = str(path)
    if len(data) > MAX_BYTES:
        raise InvalidInput([Problem(Position(name), f"larger than {MAX_BYTES:,} bytes", "split it into several files")])
    text = decode(data, name)
    if text.startswith(HEADER):
        fix = "put the values under `env:` with `ansible-vault encrypt_string`"
        raise InvalidInput(
            [Problem(Position(name, 1, 1), "encrypted with ansible-vault, which an env_file cannot be", fix)]
        )
    return _parse(text, name)


def _parse(text: str, name: str) -> Mapping:
    entries: dict[str, Node] = {}
    keys: dict[str, Scalar] = {}
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.lstrip().removesuffix("\r")
        at = Position(name, number, len(line) - len(line.lstrip()) + 1)
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not _NAME.fullmatch(key if equals else key.rstrip()):
            problems.append(Problem(at, *_wrong_name(key, equals)))
        elif "\0" in value:
            problems.append(Problem(at, "a null byte, which no environment variable can have", "remove it"))
        else:
            key = key.rstrip()
            content = value if equals else os.environ.get(key)
            if content is not None:
                entries[key], keys[key] = _value(key, content, at), Scalar(key, at, key)
    if problems:
        raise InvalidInput(problems)
    return Mapping(entries, Position(name), keys)


def _wrong_name(key: str, equals: str) -> tuple[str, str]:
    """Return what is wrong with a line, and the fix; what may be a value is not repeated."""
    if key.startswith("export "):
        return "`export` is a command of a shell, and no shell reads this file", _FORMAT
    if not equals:
        return "a line without `=` that is no name of a variable", _FORMAT
    return f"`{printable(key)}` is no name of a variable", _FORMAT


def _value(key: str, text: str, at: Position) -> Scalar:
    if mentions_secret(key):
        hide_secret(text)
    return Scalar(text, Position(at.file, at.line, at.column + len(key) + 1), text, literal=True)
