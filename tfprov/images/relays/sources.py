"""Decides which relay sends a layer to which other. Pure.

Each layer has a tree of its own: the first relay that asks gets it from the controller, and every other from a relay that
has it or is receiving it, at most FAN_OUT from each. So a layer leaves the controller once, and reaches twice as many hosts
with every level of the tree.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

FAN_OUT = 2
"""Relays that get one layer from the same relay. With three, a host's link carries a layer three times."""
MAX_FAILURES = 2
"""Failed relays after which a relay gets its layers from the controller: a firewall is likely, and a try takes seconds."""


_COMPARED = 16
"""Possible sources that are compared: the first that asked are near the controller, and a thousand hosts ask."""


@dataclass(frozen=True)
class Peer:
    """A relay as others reach it: its number in this run, the name of its host, and where it listens."""

    number: int
    host: str
    address: str
    port: int


@dataclass
class _Tree:
    """The way of one layer: the source of each relay that asked for it, None for the controller, in their order."""

    sources: dict[int, int | None] = field(default_factory=dict)
    children: Counter[int] = field(default_factory=Counter)

    def put(self, number: int, source: int | None) -> None:
        self.sources[number] = source
        if source is not None:
            self.children[source] += 1

    def take(self, number: int) -> None:
        if (source := self.sources.pop(number, None)) is not None:
            self.children[source] -= 1

    def depth(self, number: int) -> int | None:
        """Return how many relays are between; None where the way leads through one that is asking again."""
        depth = 0
        source = self.sources[number]
        while source is not None:
            if source not in self.sources:
                return None
            source, depth = self.sources[source], depth + 1
        return depth


@dataclass
class Sources:
    """The relays of one run that listen, and the tree of each layer. The caller has one thread at a time in here."""

    _peers: dict[int, Peer] = field(default_factory=dict)
    _trees: dict[str, _Tree] = field(default_factory=dict)
    _uploads: Counter[int] = field(default_factory=Counter)
    """How many layers each relay was asked to send."""
    _failures: dict[int, set[int]] = field(default_factory=dict)
    """The relays from which a relay could not get a layer."""

    def add(self, peer: Peer) -> None:
        """A relay listens for others."""
        self._peers[peer.number] = peer

    def remove(self, number: int) -> None:
        """A relay has ended: nobody is sent to it any more."""
        self._peers.pop(number, None)

    def failed(self, number: int, source: int) -> None:
        """The relay `number` could not get a layer from the relay `source`."""
        self._failures.setdefault(number, set()).add(source)

    def assign(self, number: int, digest: str) -> Peer | None:
        """Return the relay from which the relay `number` is to get a layer; None for the controller.

        It has asked before if its last source failed. No relay waits for itself: those that get the layer through
        `number` are left out.
        """
        tree = self._trees.setdefault(digest, _Tree())
        tree.take(number)
        some = islice((other for other in tree.sources if self._may_send(other, number, tree)), _COMPARED)
        depths = ((tree.depth(other), other) for other in some)
        possible = [(depth, self._uploads[other], other) for depth, other in depths if depth is not None]
        source = min(possible)[2] if possible else None
        tree.put(number, source)
        if source is None:
            return None
        self._uploads[source] += 1
        return self._peers[source]

    def _may_send(self, source: int, number: int, tree: _Tree) -> bool:
        failures = self._failures.get(number, ())
        is_open = source in self._peers and tree.children[source] < FAN_OUT
        return is_open and len(failures) < MAX_FAILURES and source not in failures


MIN_MISSING = 24 * 1024 * 1024
"""Bytes that a host must lack for a relay to pay: it takes some 7 MB itself, and a second to start."""


def worth_it(missing: int, hosts: int, least: int) -> bool:
    """Whether one of `hosts` hosts, which lacks `missing` bytes of an image, should get them through a relay."""
    return hosts > 1 and missing >= least
