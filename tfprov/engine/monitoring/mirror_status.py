"""What the mirror of the chief's checkpoint directory last did, from the `mirror.json` that it writes."""

import json
from dataclasses import dataclass

from tfprov.engine.context import Context
from tfprov.errors import HostError, one_line
from tfprov.filesystems.generations import MIRROR_STATUS
from tfprov.model.state import Observation

_MOST = 16 * 1024
"""Bytes of the file that are read: it has one line."""
_LONGEST = 300


@dataclass(frozen=True)
class MirrorStatus:
    """The remote directory, its newest checkpoint (None before the first), and why it is behind; empty if it is not."""

    url: str
    newest: str | None
    problem: str

    def __str__(self) -> str:
        holds = f"has {self.newest}" if self.newest else "has no checkpoint yet"
        return f"{self.url} {holds}{f', and is behind: {self.problem}' if self.problem else ''}"


def read_mirror(context: Context, observation: Observation) -> MirrorStatus | None:
    """Return what the chief's mirror last wrote; None without a mirror, and before it has begun."""
    container, chief = context.container(context.cluster.chief.name), context.chief(observation)
    if chief is None or container is None or container.remote is None:
        return None
    try:
        return parse(context.runtimes[chief.host].tail(chief.task, MIRROR_STATUS, _MOST))
    except HostError:
        return None


def parse(data: bytes) -> MirrorStatus | None:
    """Parse the file; None for another file of this name."""
    try:
        facts = json.loads(data)
        url, newest, problem = facts["url"], facts["newest"], facts["problem"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if not (isinstance(url, str) and isinstance(newest, str | None) and isinstance(problem, str)):
        return None
    return MirrorStatus(one_line(url), one_line(newest) if newest else None, one_line(problem)[:_LONGEST])
