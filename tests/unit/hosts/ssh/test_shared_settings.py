"""The settings that all SSH connections of a process share."""

from typing import Any

import fabric  # type: ignore[import-untyped]
import paramiko

from tfprov.hosts.ssh.connection import FabricConnection


class CountingConfig(fabric.Config):  # type: ignore[misc]
    """Counts how often its values are put together anew: for a moment it has none then, which other threads would see."""

    merges = 0

    def merge(self) -> None:
        type(self).merges += 1
        super().merge()


def test_a_new_connection_leaves_the_shared_settings_alone() -> None:
    settings: Any = CountingConfig(lazy=True, ssh_config=paramiko.SSHConfig())
    before = CountingConfig.merges
    made: Any = FabricConnection("h1", user="u", port=22, config=settings, gateway=False, connect_kwargs={"timeout": 1})
    assert before == CountingConfig.merges
    assert made.inline_ssh_env, "Fabric's default"
