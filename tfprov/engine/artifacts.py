"""What a host must have before a task starts there: where it is made, and how it gets there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tfprov.delivery.code import Code
from tfprov.delivery.store import CodeStore
from tfprov.hosts.base import Runtime


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
