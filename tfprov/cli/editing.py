"""From an edit of texts to files that are replaced: what is read, whether the result holds, and what is said about it."""

import difflib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tfprov.cli.options import sources_of, vault_of
from tfprov.cli.replacing import rewrite
from tfprov.config.edit.check import Texts, caused
from tfprov.config.edit.inventory import Done
from tfprov.config.edit.places import Files, owner_of
from tfprov.config.edit.text import Source, read_source
from tfprov.config.load import load_inventory
from tfprov.config.settings.resolve import resolve
from tfprov.config.settings.together import processes_here
from tfprov.config.sources.reader import place_of
from tfprov.config.sources.sniffing import Kind, is_blank, is_foreign, kind_of
from tfprov.config.text.reading import reading
from tfprov.config.vault.opening import HEADER, Vault
from tfprov.config.vault.secrets import discreet
from tfprov.errors import InvalidInput, Problem, Usage, one_line, shown
from tfprov.model.inventory import Inventory
from tfprov.planning.place import place


@dataclass(frozen=True)
class Read:
    """An inventory as it was read: None where it cannot be understood, the problems it has, and its files."""

    inventory: Inventory | None
    problems: tuple[Problem, ...]
    contents: dict[str, bytes] = field(default_factory=dict)


def read(options: dict[str, Any], vault: Vault, instead: dict[str, bytes] | None = None) -> Read:
    """Read and check the inventory that `options` name; `instead` stands for the content of files, by their real paths."""
    inventory = None
    with reading(instead) as found:
        try:
            inventory = load_inventory(sources_of(options), options["extra"], vault, lookup_dirs=options["lookup_dirs"])
            place(resolve(inventory, (), [processes_here]))
        except InvalidInput as error:
            return Read(inventory, error.problems, found.files)
    return Read(inventory, (), found.files)


def files_of(contents: dict[str, bytes], sources: Sequence[str], extra: Sequence[str]) -> Files:
    """Return the files of an inventory that can be edited, of all that were read for it."""
    inventories: list[Source] = []
    beside: list[Source] = []
    others: list[str] = []
    for name, data in contents.items():
        if f"@{name}" in extra:
            continue
        if owner_of(name) is None and not _is_source(name, sources):
            continue
        stands_alone = owner_of(name) is None
        is_yaml = not stands_alone or kind_of(name, data) is Kind.YAML
        if is_yaml and stands_alone and is_foreign(name, data) and name not in map(place_of, sources):
            continue  # a README in a directory
        if is_yaml and not data.startswith(HEADER.encode()):
            if not is_blank(data):
                (inventories if owner_of(name) is None else beside).append(read_source(data, name))
        elif not is_blank(data):
            others.append(name)
    return Files(tuple(inventories), tuple(beside), tuple(others))


def _is_source(name: str, sources: Sequence[str]) -> bool:
    places = map(place_of, sources)
    return any(name == one or name.startswith(one.rstrip("/") + "/") for one in places)


class Editing:
    """An edit from a command's options: what is there, and what is done with it at the end."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.sources, self.extra, self.vault = sources_of(options), options["extra"], vault_of(options)
        self.writes, self.shows_diff = not options["check"], options["diff"]
        self._options = options
        self.before = read(options, self.vault)
        self.inventory = self.before.inventory
        self.files = files_of(self.before.contents, self.sources, self.extra)
        if not (self.files.inventories or self.files.beside or self.files.others):
            raise InvalidInput(self.before.problems) if self.before.problems else _nothing_to_edit()

    def finish(self, done: Done, verb: str, holds: Callable[[Inventory], None] | None = None) -> None:
        """Check the result, write it, and say what was done; `verb` is in the past tense: `added x`.

        `holds` raises where the inventory does not say afterwards what the edit was for.
        """
        changed = [one for one in (*done.files.inventories, *done.files.beside) if one not in self._all()]
        texts = {one.name: (self._text(one.name), one.text) for one in changed}
        after = self._checked(texts, holds)
        if self.shows_diff:
            for name, (old, new) in texts.items():
                click.echo("".join(f"{line}\n" for line in diff(name, old, new)), nl=False)
        if self.writes:
            for name, (_, new) in texts.items():
                self._write(name, new)
        if not texts:
            click.echo(f"nothing to do: {_unsaid(done)} is like that already")
        else:
            click.echo(f"{verb} {done.words()}{'' if self.writes else '; not written (--check)'}")
        if after.problems:
            count = len(after.problems)
            these = f"{count} problems; `tfprov plan` tells them" if count > 1 else "1 problem; `tfprov plan` tells it"
            click.echo(f"note: the inventory still has {these}")

    def _all(self) -> tuple[object, ...]:
        return (*self.files.inventories, *self.files.beside)

    def _text(self, name: str) -> str:
        return self.files.find(name).text

    def _checked(self, texts: Texts, holds: Callable[[Inventory], None] | None) -> Read:
        instead = {os.path.realpath(name): new.encode() for name, (_, new) in texts.items()}
        after = read(self._options, self.vault, instead)
        if problems := caused(self.before.problems, after.problems, texts):
            raise InvalidInput(problems)
        if holds is not None and after.inventory is not None:
            holds(after.inventory)
        return after

    def _write(self, name: str, text: str) -> None:
        try:
            rewrite(Path(name), self.before.contents[name], text.encode())
        except OSError as error:
            reason = one_line(error.strerror or str(error))
            fix = "try again" if error.errno == errno.EBUSY else "edit a file of your own in its place"
            raise Usage(f"{shown(name)} is left as it is: {reason[0].lower()}{reason[1:]}", fix) from None


def _unsaid(done: Done) -> str:
    return done.words() or "it"


def _nothing_to_edit() -> Usage:
    return Usage("the inventory is no file that can be edited", "give a YAML file with -i")


def diff(name: str, old: str, new: str) -> list[str]:
    """Return what changes in a file as a unified diff; what stands behind the name of a password is left out."""
    lines = difflib.unified_diff(_lines(old), _lines(new), f"{name} (before)", f"{name} (after)", n=3)
    found = []
    for number, line in enumerate(lines):
        text = line.rstrip("\r\n")
        found.append(_printable(text if number < 2 else discreet(text)))
        if number >= 2 and not line.startswith("@@") and not line.endswith("\n"):
            found.append("\\ No newline at end of file")
    return found


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _printable(text: str) -> str:
    return "".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in text)
