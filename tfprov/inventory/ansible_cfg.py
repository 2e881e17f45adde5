"""Reads the two settings of an `ansible.cfg` beside the inventory that decide how an inventory is read."""

import configparser
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import expanduser, expandvars
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.inventory.sources import IGNORED_EXTENSIONS, source_path, vars_base
from tfprov.yamltext.load import decode, read_bytes

NAME = "ansible.cfg"
_PASSWORD_FILE = ("defaults", "vault_password_file")
_EXTENSIONS = (("defaults", "inventory_ignore_extensions"), ("inventory", "ignore_extensions"))
"""Two names of one setting; the last one wins, as in Ansible."""
_SHOWN = 4
"""Ignored settings that the warning names."""


@dataclass(frozen=True)
class AnsibleCfg:
    """The settings that tfprov uses; `warnings` are about ignored settings and files that cannot be read."""

    vault_password_file: str | None = None
    ignore_extensions: tuple[str, ...] = IGNORED_EXTENSIONS
    warnings: tuple[Problem, ...] = ()


def read_ansible_cfg(sources: Sequence[str]) -> AnsibleCfg:
    """Return the settings of the first `ansible.cfg` beside one of the sources, or in a source that is a directory."""
    # Path.is_file() raises where a directory may not be searched, which is reported for the inventory in it.
    path = next((path for path in _candidates(sources) if os.path.isfile(path)), None)  # noqa: PTH113
    if path is None:
        return AnsibleCfg()
    try:
        return _settings(path, _parse(path))
    except InvalidInput as error:
        return AnsibleCfg(warnings=error.problems)


def _candidates(sources: Sequence[str]) -> Iterator[Path]:
    for source in sources:
        base = vars_base(source)
        if base is not None:
            yield base / NAME
            if base == Path(source_path(source)):
                yield base.parent / NAME


def _parse(path: Path) -> configparser.ConfigParser:
    at = Position(str(path))
    if path.parent.stat().st_mode & stat.S_IWOTH:  # as Ansible: it may name a program, which is run then
        raise _ignored_file(at, "everybody can write into its directory", "run `chmod o-w` on it")
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",), strict=False)
    try:
        parser.read_string(decode(read_bytes(path, at, fix="check the link"), str(path)))
    except configparser.ParsingError as error:
        number = error.lineno if isinstance(error, configparser.MissingSectionHeaderError) else error.errors[0][0]
        line = Position(str(path), number, 1)
        what = "this line is neither a `[section]` nor a setting of one"
        raise _ignored_file(line, what, "correct it") from None
    return parser


def _ignored_file(at: Position, why: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(at, f"ignored: {why}", fix)])


def _settings(path: Path, parser: configparser.ConfigParser) -> AnsibleCfg:
    extensions: tuple[str, ...] = IGNORED_EXTENSIONS
    for section, key in _EXTENSIONS:
        if value := parser.get(section, key, fallback=""):
            extensions = tuple(word.strip().strip("\"'") for word in value.split(","))
    password_file = parser.get(*_PASSWORD_FILE, fallback="")
    others = [
        key for section in parser.sections() for key in parser[section]
        if (section, key) not in (_PASSWORD_FILE, *_EXTENSIONS)
    ]  # fmt: skip
    return AnsibleCfg(
        str(path.parent / expanduser(expandvars(password_file))) if password_file else None,  # noqa: PTH111
        tuple(filter(None, extensions)),
        (_ignored_settings(path, others),) if others else (),
    )


def _ignored_settings(path: Path, others: Sequence[str]) -> Problem:
    names = ", ".join(f"`{printable(name)}`" for name in others[:_SHOWN])
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    what = f"tfprov reads only `vault_password_file` and `inventory_ignore_extensions` of it, not {names}{more}"
    return Problem(Position(str(path)), what, "give what hosts need as variables, such as `ansible_user`")
