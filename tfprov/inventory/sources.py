"""Reads the sources of `-i`: files, directories, scripts and host lists."""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.inventory.builder import InventoryBuilder
from tfprov.inventory.detect import (
    SourceKind,
    configured_plugin,
    detect_kind,
    has_yaml_extension,
    is_script,
    is_unlikely_inventory,
    looks_like_yaml,
)
from tfprov.inventory.yaml_source import add_document, has_groups, plugin_problem
from tfprov.model.yaml_node import Scalar
from tfprov.paths import INVENTORY
from tfprov.vault.decrypt import Vault
from tfprov.yamltext.load import MAX_BYTES, FileOverlay, decode, parse_json_or_yaml, read_bytes

IGNORED_EXTENSIONS = (
    "~", ".pyc", ".pyo", ".swp", ".bak", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry",
)  # fmt: skip
"""Endings of files in a directory of sources that Ansible ignores."""
_IGNORED = r"^\.|^(?:host_vars|group_vars|vars_plugins)$"
_NEW = "write one with `tfprov init`, or give its path with -i"
_MANIFEST_KEYS = (b'"cluster"', b'"run"', b'"checkpoints"', b'"files"')
_KEPT_LOGS = "logs/????????T??????Z-??????/settings.json"
MAX_FILES = 1000
"""In a directory of sources: a wrong directory is refused before all of it is read."""


def source_path(source: str) -> str:
    """Return the path of a source of `-i` with `~` and environment variables expanded; a host list unchanged."""
    return source if "," in source else os.path.expanduser(os.path.expandvars(source))  # noqa: PTH111  as Ansible does


def is_host_list(source: str) -> bool:
    """Whether a source is a host list such as `host1,host2`, and no file."""
    return "," in source and not os.path.exists(source)  # noqa: PTH110  Path refuses null bytes


def vars_base(source: str) -> Path | None:
    """Return the directory of a source's `group_vars/` and `host_vars/`; None for a host list."""
    path = source_path(source)
    if is_host_list(path):
        return None
    return Path(path) if os.path.isdir(path) else Path(path).parent  # noqa: PTH112  Path refuses null bytes


def vars_bases(sources: Sequence[str]) -> list[Path]:
    """Return the directories with vars files of `sources`; one with several sources counts where the last one stands."""
    bases = [base for base in map(vars_base, sources) if base is not None]
    return list(reversed(dict.fromkeys(reversed(bases))))


@dataclass(frozen=True)
class SourceFile:
    """A file of a source; `in_directory` if the source is a directory of inventories."""

    path: str
    in_directory: bool = False


class SourceWalker:
    """Lists the files of sources. What is wrong with a directory goes to `problems`.

    Files in a directory whose names end with one of `ignore` are skipped, as Ansible does.
    """

    def __init__(self, problems: list[Problem], ignore: Sequence[str]) -> None:
        self.problems = problems
        self._ignored = re.compile("".join([_IGNORED, *(f"|{re.escape(end)}$" for end in ignore)]))
        self._count = 0

    def files(self, path: str) -> Iterator[SourceFile]:
        """Yield the file at `path`, or the files below it."""
        if not os.path.isdir(path):  # noqa: PTH112  Path refuses null bytes
            yield SourceFile(path)
            return
        before = self._count
        try:
            yield from self._below(path, ())
        except InvalidInput as error:
            self.problems.extend(error.problems)
            return
        if self._count == before:
            what = "a directory without an inventory in it"
            fix = "put one there, or give a file; `tfprov init` writes one"
            self.problems.append(Problem(Position(path), what, fix))

    def _below(self, path: str, outer: Collection[str]) -> Iterator[SourceFile]:
        real = os.path.realpath(path)
        if real in outer:
            raise InvalidInput(
                [Problem(Position(path), "a directory inside itself", "remove the link that leads back")]
            )
        for name in self._listed(path):
            below = os.path.join(path, name)  # noqa: PTH118  paths stay as the user wrote them
            try:
                if os.path.isdir(below):  # noqa: PTH112
                    if not _is_gathered(Path(below)):
                        yield from self._below(below, (*outer, real))
                else:
                    self._count_file(path)
                    yield SourceFile(below, in_directory=True)
            except InvalidInput as error:
                self.problems.extend(error.problems)

    def _listed(self, path: str) -> list[str]:
        try:
            names = os.listdir(os.fsencode(path))  # noqa: PTH208  sorted as bytes, as Ansible does
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidInput([Problem(Position(path), reason, "give a readable directory")]) from None
        return [os.fsdecode(name) for name in sorted(names) if not self._ignored.search(os.fsdecode(name))]

    def _count_file(self, path: str) -> None:
        self._count += 1
        if self._count > MAX_FILES:
            what = f"more than {MAX_FILES:,} files"
            raise InvalidInput([Problem(Position(path), what, "give a directory that holds inventories only")])


def _is_gathered(directory: Path) -> bool:
    """Whether a gather or kept logs are in a directory: `checkpoints.to` is below a directory of sources by default."""
    try:
        manifest = (directory / "manifest.json").read_bytes()
    except OSError:
        manifest = b""
    return all(key in manifest for key in _MANIFEST_KEYS) or any(directory.glob(_KEPT_LOGS))


class SourceReader:
    """Reads sources into `builder`; what is wrong with them goes to its problems. `alone` is whether there is only one."""

    def __init__(
        self,
        builder: InventoryBuilder,
        vault: Vault,
        *,
        alone: bool,
        ignore: Sequence[str],
        file_overlay: FileOverlay | None,
    ) -> None:
        self.builder, self.vault, self.alone, self.file_overlay = builder, vault, alone, file_overlay
        self._walker = SourceWalker(builder.problems, ignore)

    def add(self, source: str) -> None:
        """Add the inventory of `source`, which is a value of `-i`."""
        path = source_path(source)
        if is_host_list(path):
            self._host_list(path)
            return
        for file in self._walker.files(path):
            try:
                self._file(file)
            except InvalidInput as error:
                self.builder.problems.extend(error.problems)

    def _host_list(self, source: str) -> None:
        at = Position("-i")
        self.builder.begin_source(at)
        names = [name.strip() for name in source.split(",") if name.strip()]
        if not names:
            self.builder.report(at, f"`{printable(source)}` names no host", "for example `-i host1,host2`")
        for name in names:
            key = Scalar(name, at, name)
            if "[" in name and not name.startswith("["):
                self.builder.report(at, f"a range in a host list: `{printable(name)}`", "write it into a file")
            else:
                self.builder.add_hosts("ungrouped", key)

    def _file(self, file: SourceFile) -> None:
        """Read a file; one of a directory that is no inventory is skipped with a warning."""
        path, within = file.path, file.in_directory
        if within and os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
            self._warn_skipped(path, "a pipe, a socket or a device")  # reading one may wait for ever
            return
        at, alone = Position(path), self.alone and not within
        fix = _NEW if path == INVENTORY else "check the path after -i"
        data = read_bytes(Path(path), at, fix=fix, file_overlay=self.file_overlay)
        kind = detect_kind(path, data)
        if kind is SourceKind.SCRIPT:
            from tfprov.inventory.script_source import add_script  # noqa: PLC0415  most inventories are one YAML file

            add_script(self.builder, path, self.vault)
        elif kind is SourceKind.TOML:
            fix = "convert it with `ansible-inventory -i FILE --list --yaml`"
            self.builder.report(at, "a TOML inventory, which tfprov does not read", fix)
        elif kind is SourceKind.NOTHING and not (alone and has_yaml_extension(path)):
            self.builder.begin_source(at)  # one of several sources may be empty
        elif kind in (SourceKind.YAML, SourceKind.NOTHING):
            self._read_or_skip(path, data, lambda: self._yaml(path, data, within=within), within=within)
        else:
            self._read_or_skip(path, data, lambda: self._ini(path, data), within=within)

    def _yaml(self, path: str, data: bytes, *, within: bool) -> None:
        node = parse_json_or_yaml(data, path, vault=self.vault)
        if within and not has_groups(node):
            self._warn_skipped(path, "no mapping of groups")
        else:
            add_document(self.builder, node)

    def _read_or_skip(self, path: str, data: bytes, read: Callable[[], None], *, within: bool) -> None:
        """Read a file; skip one in a directory that is unlikely to be an inventory, if it has problems."""
        if not (within and is_unlikely_inventory(path, data)):
            read()
            return
        try:
            problems = self.builder.attempt(read)
        except InvalidInput as error:
            problems = list(error.problems)
        if problems:
            first = problems[0]
            line = f"line {first.at.line}: " if first.at.line else ""
            self._warn_skipped(path, f"{line}{first.what}")

    def _warn_skipped(self, path: str, why: str) -> None:
        extension = Path(path).suffix
        ignore = f", or set `inventory_ignore_extensions = {printable(extension)}` in an ansible.cfg"
        fix = f"move it elsewhere{ignore if extension and not has_yaml_extension(path) else ''}"
        self.builder.warn(Position(path), f"skipped, because it is not an inventory ({why})", fix)

    def _ini(self, path: str, data: bytes) -> None:
        from tfprov.inventory.ini_source import add_ini  # noqa: PLC0415  most inventories are one YAML file

        if is_script(data):
            what = "a script that is not executable"
            raise InvalidInput([Problem(Position(path), what, f"make it executable with `chmod +x {printable(path)}`")])
        if plugin := configured_plugin(data):
            raise InvalidInput([Problem(Position(path, 1, 1), *plugin_problem(plugin))])
        if looks_like_yaml(data):
            what = "YAML in a file whose name ends otherwise, which Ansible reads as INI"
            raise InvalidInput([Problem(Position(path, 1, 1), what, "call it .yml")])
        if len(data) > MAX_BYTES:
            raise InvalidInput(
                [Problem(Position(path), f"larger than {MAX_BYTES:,} bytes", "split it into several files")]
            )
        add_ini(self.builder, decode(data, path), path)
