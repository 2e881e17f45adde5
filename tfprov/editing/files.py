"""The files of an inventory that can be edited: its YAML sources, and the YAML files in `group_vars/` and `host_vars/`."""

import errno
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov import atomic_write
from tfprov.editing.document import EditableFile, parse_file
from tfprov.editing.semantic_diff import ChangedTexts
from tfprov.errors import InvalidInput, Position, Usage, one_line, printable
from tfprov.inventory.ansible_cfg import read_ansible_cfg
from tfprov.inventory.detect import SourceKind, detect_kind, is_blank, is_unlikely_inventory
from tfprov.inventory.sources import SourceFile, SourceWalker, is_host_list, source_path, vars_bases
from tfprov.inventory.vars_files import DIRECTORIES, EXTENSIONS, find_vars_files
from tfprov.vault.decrypt import HEADER
from tfprov.yamltext.load import read_bytes


@dataclass(frozen=True)
class InventoryFiles:
    """The editable files, in the order in which they apply: YAML inventories, then vars files.

    `others` are the names of files that are not edited: INI, scripts, and files that are encrypted as a whole.
    """

    inventories: tuple[EditableFile, ...]
    vars_files: tuple[EditableFile, ...]
    others: tuple[str, ...]

    @property
    def editable(self) -> tuple[EditableFile, ...]:
        """All files that can be edited."""
        return (*self.inventories, *self.vars_files)

    @property
    def is_empty(self) -> bool:
        """Whether there is no file at all, editable or not."""
        return not (self.editable or self.others)

    def with_source(self, source: EditableFile) -> "InventoryFiles":
        """Return the same files, with `source` in the place of the one with its name."""

        def changed(sources: Sequence[EditableFile]) -> tuple[EditableFile, ...]:
            return tuple(source if other.name == source.name else other for other in sources)

        return replace(self, inventories=changed(self.inventories), vars_files=changed(self.vars_files))

    def find(self, name: str) -> EditableFile:
        """Return the editable file called `name`."""
        return next(source for source in self.editable if source.name == name)


def open_sources(sources: Sequence[str], skip: Collection[str]) -> InventoryFiles:
    """Open the files of the `-i` options `sources`, except those named in `skip`; InvalidInput if YAML is malformed."""
    walker = SourceWalker([], read_ansible_cfg(sources).ignore_extensions)
    files = {
        file.path: file
        for source in map(source_path, sources)
        if not is_host_list(source)
        for file in walker.files(source)
        if file.path not in skip
    }
    inventories: list[EditableFile] = []
    others: list[str] = []
    for file in files.values():
        data = _read(file.path)
        is_yaml = detect_kind(file.path, data) is SourceKind.YAML
        if is_blank(data) or (is_yaml and _is_skipped(file, data)):
            continue
        if is_yaml and not _is_encrypted(data):
            inventories.append(parse_file(data, file.path))
        else:
            others.append(file.path)
    return InventoryFiles(tuple(inventories), (), tuple(others))


def open_vars_files(
    sources: Sequence[str], groups: Iterable[str], hosts: Iterable[str], skip: Collection[str] = ()
) -> InventoryFiles:
    """Open the files in `group_vars/` and `host_vars/` beside `sources` that hold variables of these groups and hosts."""
    vars_files: list[EditableFile] = []
    others: list[str] = []
    owners = tuple(zip(DIRECTORIES, (list(groups), list(hosts)), strict=True))
    paths = (
        str(path)
        for base in vars_bases(sources)
        for directory, names in owners
        for _, path in find_vars_files(base / directory, names, [])
    )
    for path in paths:
        data = _read(path)
        if path in skip or is_blank(data):
            continue
        if _is_encrypted(data):
            others.append(path)
        else:
            vars_files.append(parse_file(data, path))
    return InventoryFiles((), tuple(vars_files), tuple(others))


def vars_file_owner(path: str) -> tuple[str, str] | None:
    """Return ("group_vars", "worker") for a file with variables of `worker`; None for other files."""
    parts = Path(path).parts
    for number in range(len(parts) - 2, -1, -1):
        if parts[number] in DIRECTORIES:
            name, extension = os.path.splitext(parts[number + 1])  # noqa: PTH122  as Ansible splits it
            return parts[number], name if extension in EXTENSIONS else parts[number + 1]
    return None


def _read(path: str) -> bytes:
    """Return the content of a file; nothing if it cannot be read, which is reported when the inventory is loaded."""
    try:
        return read_bytes(Path(path), Position(path), fix="")
    except InvalidInput:
        return b""


def _is_skipped(file: SourceFile, data: bytes) -> bool:
    """Whether a file in a directory of inventories is none, such as a README."""
    return file.in_directory and is_unlikely_inventory(file.path, data)


def _is_encrypted(data: bytes) -> bool:
    return data.removeprefix(BOM_UTF8).startswith(HEADER.encode())


Rewrite = Callable[[Path, bytes, bytes], None]
"""Replaces the content of a file, as `atomic_write.rewrite` does; the arguments are its own."""


def write_texts(texts: ChangedTexts, rewrite: Rewrite = atomic_write.rewrite) -> None:
    """Write the new text of every file, or of none; Usage names the file that cannot be written.

    Files that were written before an error get their old text back, unless another process has changed them since.
    """
    changes = {name: (Path(name), old.encode(), new.encode()) for name, (old, new) in texts.items()}
    begun: list[str] = []
    name = ""
    try:
        for name, change in changes.items() if len(changes) > 1 else ():  # noqa: B007  the error names it
            _rehearse(*change, rewrite)
        for name, change in changes.items():
            begun.append(name)
            rewrite(*change)
    except BaseException as error:
        left = [one for one in begun if not _put_back(*changes[one], rewrite) and one != name]
        if not isinstance(error, OSError):
            raise
        others = f", and {', '.join(map(printable, left))} changed already" if left else ""
        others = others or ", and so are the others" * (len(changes) > 1)
        reason = one_line(error.strerror or str(error))
        fix = "try again" if error.errno == errno.EBUSY else "edit a file of your own in its place"
        what = f"{printable(name)} is left as it is{others}: {reason[0].lower()}{reason[1:]}"
        raise Usage(what, fix) from None


def _rehearse(path: Path, old: bytes, new: bytes, rewrite: Rewrite) -> None:
    """Raise the OSError with which `rewrite` would refuse the file, and leave the file as it is."""
    try:
        rewrite(path, new, new)  # it looks at the content last: all that it does before is tried
    except OSError as error:
        if error.errno != errno.EBUSY or path.read_bytes() != old:
            raise


def _put_back(path: Path, old: bytes, new: bytes, rewrite: Rewrite) -> bool:
    """Give a file its old content back if it has the new one; return whether it has the old one now."""
    with suppress(OSError):  # also of a flush, after which the file has its old content
        if path.read_bytes() == new:
            rewrite(path, new, old)
    try:
        return path.read_bytes() == old
    except OSError:
        return False
