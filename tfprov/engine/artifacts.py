"""What a host must have before a task starts there: where it is made, and how it gets there."""

import threading
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tfprov.delivery.code import Code
from tfprov.delivery.store import CodeStore
from tfprov.hosts.base import Runtime

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
