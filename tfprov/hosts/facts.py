"""Facts about hosts and engines as plain values. None means unknown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClockOffset:
    """A host's clock relative to the controller's: `offset` in seconds, positive if ahead, plus or minus `doubt`."""

    offset: float
    doubt: float


@dataclass(frozen=True)
class Listener:
    """A listening TCP port at `address`, `*` for all addresses. `owner` is the program, "" if unknown."""

    address: str
    port: int
    owner: str = ""

    def takes(self, address: str, port: int) -> bool:
        """Whether this keeps others from listening at `address:port`."""
        return self.port == port and (self.address in ("*", address) or address == EVERYWHERE)


EVERYWHERE = "0.0.0.0"  # noqa: S104  it is compared, not bound
"""The address that publishes a port in all networks of a host."""


@dataclass(frozen=True)
class System:
    """The machine. `kind` is the output of `uname -m`, `flags` the CPU's, `addresses` the IPv4 addresses.

    `free` is the space on the requested disk, `memory` the available memory, both in bytes. `gpus` is the number of NVIDIA
    GPUs, `gpu_tools` whether the tools that pass them to containers are installed.
    """

    kind: str = ""
    flags: frozenset[str] | None = None
    addresses: tuple[str, ...] | None = None
    free: int | None = None
    memory: int | None = None
    listeners: tuple[Listener, ...] | None = None
    gpus: int | None = None
    gpu_tools: bool = False


@dataclass(frozen=True)
class ContainerSummary:
    """Any container on an engine. `published` are the host's addresses and ports that lead to it."""

    id: str
    name: str
    running: bool
    cluster: str = ""
    task: str = ""
    check: str = ""
    published: tuple[tuple[str, int], ...] = ()


def publisher(containers: Iterable[ContainerSummary], address: str, port: int) -> ContainerSummary | None:
    """Return the container that keeps others from publishing `port` on `address`, or None."""
    wildcards = (EVERYWHERE, "::", "")
    return next(
        (
            container
            for container in containers
            for published_at, number in container.published
            if number == port and (published_at in (address, *wildcards) or address in wildcards)
        ),
        None,
    )


@dataclass(frozen=True)
class EngineFacts:
    """A Docker engine. `platform` is the platform of its images, as `linux/amd64`.

    `disk` is the directory of its images, `memory` is in bytes. `limits_memory` and `limits_cpus`: whether the kernel
    supports these limits. `gives_gpus`: whether it is configured for GPUs.
    """

    version: str
    api: str
    platform: str
    driver: str
    disk: str
    memory: int
    cpus: int
    rootless: bool = False
    limits_memory: bool = True
    limits_cpus: bool = True
    gives_gpus: bool = False
    images: Mapping[str, str] = field(default_factory=dict)
    """The platform of each required image that it has, by name; moved names do not count."""
    image_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the same images; containers are created by id, as names can be moved at any time."""
    moved: frozenset[str] = frozenset()
    """The required names that refer to other images than the delivered ones."""
    containers: tuple[ContainerSummary, ...] = ()


@dataclass(frozen=True)
class HostFacts:
    """One host. `way` describes the access to it; without an `engine`, `trouble` is the reason."""

    host: str
    way: str
    system: System
    clock: ClockOffset | None = None
    engine: EngineFacts | None = None
    trouble: str = ""
