"""Helpers of SSH tests: the target of a test's sshd, and the error of a failed call."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sshd import Sshd
from tfprov.errors import HostError
from tfprov.hosts.ssh.client_config import SSHTarget


def target(server: Sshd, **values: Any) -> SSHTarget:
    usual: dict[str, Any] = {
        "name": "h1", "address": "127.0.0.1", "port": server.port,
        "key_files": (server.user_key,), "known_hosts": (server.known_hosts,),
    }  # fmt: skip
    return SSHTarget(**usual | values)


def error_of(function: Callable[[], object], kind: type[HostError] = HostError) -> str:
    """The message with which `function` fails: exactly of that kind, on one line, with the host's name in front."""
    with pytest.raises(HostError) as caught:
        function()
    assert type(caught.value) is kind, repr(caught.value)
    message = str(caught.value)
    assert message.startswith("h1: ")
    assert "\n" not in message
    return message
