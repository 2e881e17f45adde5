"""Faults of simulated hosts."""

from collections.abc import Mapping, Sequence
from enum import StrEnum


class Fault(StrEnum):
    """What is wrong with a host."""

    NO_ENGINE = "no-engine"
    """`docker` cannot connect to the engine, and says so."""
    HANGS = "hangs"
    """The engine takes connections and answers nothing, a ping neither."""
    ERROR_500 = "error-500"
    """The engine answers every request with status 500."""
    NO_SSHD = "no-sshd"
    """Nothing listens at the host's SSH port."""


Faults = Mapping[str, Fault]
"""By the host's name in the inventory."""

ERROR = {"message": "write /var/lib/docker/tmp: no space left on device"}
"""The answer of ERROR_500."""


def spread(hosts: int, kinds: Sequence[Fault]) -> dict[str, Fault]:
    """Return one host with each of `kinds`, none of them the first, evenly among `hosts` hosts."""
    step = max(1, (hosts - 1) // max(1, len(kinds)))
    return {f"h{hosts - 1 - number * step}": kind for number, kind in enumerate(kinds)}
