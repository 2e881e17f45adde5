"""What a host says of itself, as plain values; what is None could not be found out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Clock:
    """A host's clock against the controller's: `offset` in seconds, ahead where it is positive, give or take `doubt`."""

    offset: float
    doubt: float


@dataclass(frozen=True)
class Listener:
    """A TCP port that is listened on, at `address` or, for `*`, at all of the host's; `owner` is a program, or empty."""

    address: str
    port: int
    owner: str = ""

    def takes(self, address: str, port: int) -> bool:
        """Whether nobody else can listen at `address:port`."""
        return self.port == port and (self.address in ("*", address) or address == EVERYWHERE)


EVERYWHERE = "0.0.0.0"  # noqa: S104  it is compared, not bound
"""What a port is published on to be reached in all networks of a host."""


@dataclass(frozen=True)
class System:
    """The machine itself. `kind` is what `uname -m` says, `flags` are the CPU's, `addresses` the IPv4 ones.

    `free` is on the disk that was asked about, `memory` what programs may still take: both in bytes. `gpus` is how many
    NVIDIA GPUs the driver shows, and `gpu_tools` whether containers can be given them.
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
    """A container that is there, whoever made it. `published` are addresses and ports of the host that lead to it."""

    id: str
    name: str
    running: bool
    cluster: str = ""
    task: str = ""
    check: str = ""
    published: tuple[tuple[str, int], ...] = ()


def publisher(containers: Iterable[ContainerSummary], address: str, port: int) -> ContainerSummary | None:
    """Return the container that keeps others from publishing `port` on `address`; None where there is none."""
    wide = (EVERYWHERE, "::", "")
    return next(
        (
            it
            for it in containers
            for where, number in it.published
            if number == port and (where in (address, *wide) or address in wide)
        ),
        None,
    )


@dataclass(frozen=True)
class EngineFacts:
    """A Docker engine. `platform` is what its images are for, as `linux/amd64`; `images` the wanted ones that it has.

    `disk` is the directory its images lie in, `memory` in bytes. `limits_memory` and `limits_cpus` say whether the kernel
    lets it, and `gives_gpus` whether it is set up for GPUs.
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
    """The platform of each wanted image that is there, by its name. One that somebody moved to another does not count."""
    image_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the same images: what is made of one is made by its id, because names can be moved at any moment."""
    moved: frozenset[str] = frozenset()
    """The wanted names that stand for another image than was delivered."""
    containers: tuple[ContainerSummary, ...] = ()


@dataclass(frozen=True)
class HostFacts:
    """One host. `way` says how it was reached; without an `engine`, `trouble` says why there is none to speak to."""

    host: str
    way: str
    system: System
    clock: Clock | None = None
    engine: EngineFacts | None = None
    trouble: str = ""
