"""What a host must have before a task starts there: where it is made, and how it gets there."""

import threading
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tfprov.delivery.code import Code
from tfprov.delivery.store import CodeStore
from tfprov.engine.report import Reporter
from tfprov.hosts.base import Runtime
from tfprov.hosts.fetching import Telling
from tfprov.model.data import DataSet
from tfprov.model.state import Container as WantedTask

Made = TypeVar("Made")


class Artifact(Protocol):
    """Code or an image. What it is called is the key under which a Context holds it."""

    @property
    def ready(self) -> bool:
        """Whether the controller has it, or need not: then there is nothing to build."""

    def build(self) -> None:
        """Make it on the controller; a second time changes nothing."""

    def deliver(self, host: str) -> None:
        """Bring it to `host`; a second time changes nothing."""


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


class Once(Generic[Made]):
    """A value that is made when it is first asked for, once for all threads."""

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
    """An artifact that is put together when it is first needed: a run with nothing to do needs none."""

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


@dataclass(frozen=True)
class Ready(Container[str]):
    """The keys of the artifacts that need not be made before they are delivered; asked one by one, as far as needed."""

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
    under_way: set[Telling] = field(default_factory=set, compare=False)
    is_cut: threading.Event = field(default_factory=threading.Event, compare=False)

    def cut(self) -> None:
        """End all fetches, also those that are about to begin: what they have got is gone on with."""
        self.is_cut.set()
        for telling in tuple(self.under_way):
            telling.cut()

    def fetch(self, host: str, report: Reporter) -> None:
        """Have `host` fetch it; what nothing wants any more makes room first. A second time changes nothing."""
        runtime = self.runtimes[host]
        runtime.tidy(self.keep)
        telling = Telling(lambda there, whole: report.transferred(host, there, whole), report.note)
        self.under_way.add(telling)
        if self.is_cut.is_set():
            telling.cut()
        try:
            runtime.fetch(self.data, self.images.get(host, ()), telling)
        finally:
            self.under_way.discard(telling)


def fetched(
    sets: Mapping[str, DataSet], wanted: Iterable[WantedTask], runtimes: Mapping[str, Runtime]
) -> dict[str, Fetched]:
    """Return the data sets that tasks read, by their names as artifacts."""
    images: dict[str, dict[str, list[str]]] = {name: {} for name in sets}
    for one in wanted:
        if one.data is not None and one.box is not None:
            images[one.data].setdefault(one.task.host, []).append(one.box.image)
    return {name: Fetched(data, images[name], runtimes, frozenset(sets)) for name, data in sets.items()}
