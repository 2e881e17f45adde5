"""What is known of one role on one host, once all of the inventory is read."""

from dataclasses import dataclass

from tfprov.config.settings.connection import Connection
from tfprov.config.templates.values import Variables
from tfprov.errors import Position
from tfprov.model.node import NOWHERE, Mapping, find
from tfprov.model.settings import Settings

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RoleSettings:
    """The settings of one role on one host; `node` knows where each was written, `variables` render the late ones.

    `address` is where other tasks reach it, `way` how tfprov does, and `group` where the group of the role stands.
    """

    role: str
    host: str
    values: Settings
    node: Mapping
    variables: Variables
    address: str
    way: Connection
    group: Position = NOWHERE

    @property
    def local(self) -> bool:
        """Whether the host is this machine."""
        return self.way.local

    @property
    def where(self) -> Position:
        """Where the host's address comes from: `ansible_host`, or its name."""
        return self.way.at

    @property
    def serves_at(self) -> str | None:
        """The address of its host on which its ports are, where that is another one than the cluster's.

        A tensorboard asks nobody for a password either, and is for people, who reach it through the connection to its host.
        """
        return self.values.bind or (_LOOPBACK if self.role == "tensorboard" else None)

    @property
    def reads_data(self) -> bool:
        """Whether its tasks read `data`; those of all roles know where it is."""
        return self.values.data is not None and self.role not in ("ps", "tensorboard")

    def at(self, *path: str | int) -> Position:
        """Where the value at `path` is written, or the nearest thing around it."""
        return find(self.node, path)[1]
