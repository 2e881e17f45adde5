"""What a delivery needs of relays; `relays` has them, and delivers their image itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tfprov.hosts.machine import Machine
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.registry_server import PushRegistry

Received = Callable[[str, int], None]
"""Called with the name of a host that sent a layer to another, and bytes; from any thread."""


@dataclass(frozen=True)
class HostAddresses:
    """Where the relay of a host listens, and the name or address under which the other hosts reach it."""

    bind: str
    address: str


class Relay(Protocol):
    """A relay on a host: its engine pulls from `port` of the host's loopback while it is `alive`."""

    @property
    def port(self) -> int: ...  # noqa: D102

    @property
    def alive(self) -> bool: ...  # noqa: D102

    def end(self) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class RelayedPull:
    """A pull for which a relay is wanted: the engine of `machine` lacks `layers` of `image`.

    It may pull them from `registry` at `port` of the host's loopback.
    """

    machine: Machine
    image: OciImage
    layers: Sequence[Descriptor]
    registry: PushRegistry
    port: int
    received: Received


class Relays(Protocol):
    """Starts relays, through which hosts get layers from each other."""

    def join(self, pull: RelayedPull) -> Relay | None:
        """Return the relay for a pull; None without one."""


class RunRelays(Relays, Protocol):
    """The relays of one run, which end together."""

    def expect(self, number: int) -> None:
        """So many deliveries are about to begin; each is settled once."""

    def settle(self) -> None:
        """A delivery is over. After the last one, the relays end."""

    def close(self) -> None:
        """End all relays. Idempotent."""
