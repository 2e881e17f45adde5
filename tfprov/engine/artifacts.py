"""Artifacts: what a host needs before a task starts there (code, images, data), how it is made and delivered."""

import os
import posixpath
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tfprov.engine.reporter import Reporter
from tfprov.errors import InvalidInput, Problem
from tfprov.hosts.base import Runtime
from tfprov.hosts.data_download import FetchProgress
from tfprov.images.code import Code, CodeStore, pack
from tfprov.inventory.sources import source_path, vars_base
from tfprov.inventory.vars_files import DIRECTORIES
from tfprov.model.state import Container as WantedTask
from tfprov.model.state import DataSet
from tfprov.paths import cache_home, state_home
from tfprov.planning.desired import RoleHost
from tfprov.settings.env_file import env_file_paths
from tfprov.settings.load import SourceList
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import python_path, python_position, resolve_path
from tfprov.vault.decrypt import Vault

Made = TypeVar("Made")


class Artifact(Protocol):
    """Code or an image; a Context holds it by its name."""

    @property
    def ready(self) -> bool:
        """Whether there is nothing to build: the controller has it, or does not need it."""

    def build(self) -> None:
        """Make it on the controller; idempotent."""

    def deliver(self, host: str) -> None:
        """Deliver it to `host`; idempotent."""

    def delivering(self, hosts: int) -> AbstractContextManager[None]:
        """Return the context of its deliveries to so many hosts."""


Makes = Callable[[str, Code | None], Artifact]
"""Returns the artifact of an image from its name on hosts and its code."""


@dataclass(frozen=True)
class PackedCode:
    """A `code:` directory, for hosts without images."""

    code: Code
    store: CodeStore
    runtimes: Mapping[str, Runtime]

    @property
    def ready(self) -> bool:
        """See Artifact."""
        return self.code.digest in self.store.digests()

    def build(self) -> None:
        """See Artifact."""
        self.store.put(self.code)

    def deliver(self, host: str) -> None:
        """See Artifact."""
        self.runtimes[host].deliver(self.code.digest, self.store.get(self.code.digest))

    def delivering(self, hosts: int) -> AbstractContextManager[None]:
        """See Artifact."""
        return nullcontext()


class Once(Generic[Made]):
    """A value that is made on first use, once for all threads."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: list[Made] = []

    def get(self) -> Made:
        """Return the value."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


@dataclass(frozen=True)
class Later:
    """An artifact that is assembled on first use: a run with nothing to do needs none."""

    once: Once[Artifact]

    @property
    def ready(self) -> bool:
        """See Artifact."""
        return self.once.get().ready

    def build(self) -> None:
        """See Artifact."""
        self.once.get().build()

    def deliver(self, host: str) -> None:
        """See Artifact."""
        self.once.get().deliver(host)

    def delivering(self, hosts: int) -> AbstractContextManager[None]:
        """See Artifact."""
        return self.once.get().delivering(hosts)


@dataclass(frozen=True)
class Ready(Container[str]):
    """The names of the artifacts that need no build before their delivery; each is checked only when it is looked up."""

    artifacts: Mapping[str, Artifact]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.artifacts and self.artifacts[key].ready


@dataclass(frozen=True)
class Fetched:
    """A data set, for the hosts that fetch it; `images` are those of the tasks there that read it, by host.

    `keep` are all data sets that the inventory wants.
    """

    data: DataSet
    images: Mapping[str, Sequence[str]]
    runtimes: Mapping[str, Runtime]
    keep: Collection[str]
    under_way: set[FetchProgress] = field(default_factory=set, compare=False)
    is_cut: threading.Event = field(default_factory=threading.Event, compare=False)

    def cut(self) -> None:
        """Cancel all fetches, also those that are about to begin; the next fetch continues from what they have."""
        self.is_cut.set()
        for progress in tuple(self.under_way):
            progress.cancel()

    def allow(self) -> None:
        """Let fetches begin again after `cut`: a later verb of the same program is not the one that was interrupted."""
        self.is_cut.clear()

    def fetch(self, host: str, report: Reporter) -> None:
        """Have `host` fetch it, after removing data that nothing uses any more; idempotent."""
        runtime = self.runtimes[host]
        runtime.remove_unused_data(self.keep)
        progress = FetchProgress(lambda copied, total: report.transferred(host, copied, total), report.note)
        self.under_way.add(progress)
        if self.is_cut.is_set():
            progress.cancel()
        try:
            runtime.fetch(self.data, self.images.get(host, ()), progress)
        finally:
            self.under_way.discard(progress)


def fetched(
    sets: Mapping[str, DataSet], wanted: Iterable[WantedTask], runtimes: Mapping[str, Runtime]
) -> dict[str, Fetched]:
    """Return the data sets that tasks read, by their names as artifacts."""
    wanted = tuple(wanted)
    images: dict[str, dict[str, list[str]]] = {name: {} for name in sets}
    for container in wanted:
        if container.data is not None and container.docker is not None:
            images[container.data].setdefault(container.task.host, []).append(container.docker.image)
    env = {container.data: container.env for container in wanted if container.data is not None}
    return {
        name: Fetched(replace(data, env=env.get(name, {})), images[name], runtimes, frozenset(sets))
        for name, data in sets.items()
    }


def never_code(
    sources: SourceList, roles: Sequence[RoleSettings], vault: Vault | None = None, extra: Sequence[str] = ()
) -> frozenset[Path]:
    """Return the paths that are never code, wherever they lie: a gather or an added host must not restart a training.

    These are the gather directories, the inventory's sources with their variables, vault passwords and env files, and
    tfprov's state.
    """
    names = [str(sources)] if isinstance(sources, Path) else list(sources)
    homes = {home for home in map(vars_base, names) if home is not None}
    passwords = vault.passwords.sources() if vault else ()
    return frozenset(
        [
            *(Path(source_path(name)) for name in names if vars_base(name) is not None),
            *(home / name for home in homes for name in DIRECTORIES),
            *(Path(option[1:]) for option in extra if option.startswith("@")),
            *(source.path for source in passwords if source.path is not None),
            *_gathered(roles),
            *(path for role in roles for path in env_file_paths(role.node)),
            state_home(),
            cache_home(),
        ]
    )


def _gathered(roles: Sequence[RoleSettings]) -> Iterator[Path]:
    """Yield the gather directories: `to`, or only this cluster's directories if `to` contains the code."""
    name = roles[0].values.cluster
    for to in {resolve_path(role, "checkpoints", "to") for role in roles}:
        earlier = (path for path in to.glob(f"{name}.*") if path.suffix[1:].isdigit())
        yield from (to, to / name, to / f".{name}.part", *earlier)


def pack_all(roles: Sequence[RoleSettings], never: Collection[Path] = ()) -> Mapping[RoleHost, Code]:
    """Pack every `code:` directory once for all its tasks, without the paths in `never`."""
    packed: dict[Path, Code] = {}
    codes = {}
    problems: list[Problem] = []
    for role in roles:
        if role.values.code is None:
            continue
        directory = resolve_path(role, "code")
        try:
            if directory not in packed:
                packed[directory] = pack(directory, role.at("code"), never)
            codes[role.role, role.host] = packed[directory]
            problems.extend(_check_link(role, packed[directory]))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return codes


def _check_link(role: RoleSettings, code: Code) -> Iterator[Problem]:
    """Yield a problem if the code has a file in the place of `checkpoints.link`."""
    if (link := role.values.checkpoints.link) is None:
        return
    name = posixpath.normpath(link.strip())
    if conflict := next(
        (file for file in code.names() if f"{file}/".startswith(f"{name}/") or name.startswith(f"{file}/")), ""
    ):
        what = f"`checkpoints.link`: the code has {conflict} in the place of the link"
        yield Problem(role.at("checkpoints", "link"), what, "name it in .dockerignore, or choose another name")


def check_data(roles: Sequence[RoleSettings]) -> None:
    """Raise InvalidInput for local data that does not exist."""
    missing = {}
    for role in roles:
        data = role.values.data if role.local and role.reads_data else None
        if data is not None and data.directory is not None and not resolve_path(role, "data", "path").is_dir():
            missing[role.at("data", "path")] = resolve_path(role, "data", "path")
    if missing:
        what = "`data.path`: {} is not a directory on this machine"
        raise InvalidInput([Problem(at, what.format(path), "correct the path") for at, path in missing.items()])


def check_python(roles: Sequence[RoleSettings]) -> None:
    """Raise InvalidInput for a local Python interpreter that does not exist."""
    named = {python_position(role): path for role in roles if (path := python_path(role))}
    problems = []
    for at, path in named.items():
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            reason = "is not a program" if Path(path).exists() else "does not exist on this machine"
            problems.append(Problem(at, f"the Python for tasks, {path}, {reason}", "correct the path in `python`"))
    if problems:
        raise InvalidInput(problems)


def if_needed(read: Callable[[], Any], nothing: Any = None, *, needed: bool) -> Any:
    """Return what `read` returns; `nothing` for files that raise InvalidInput and are not needed."""
    try:
        return read()
    except InvalidInput:
        if needed:
            raise
        return nothing


def all_problems(*attempts: Callable[[], Any]) -> list[Any]:
    """Call all functions and return their results; InvalidInput carries the problems of all that failed."""
    problems: list[Problem] = []
    results: list[Any] = []
    for attempt in attempts:
        try:
            results.append(attempt())
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return results
