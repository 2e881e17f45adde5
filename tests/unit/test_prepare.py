"""From an inventory to what a verb works with: which connections are begun while other things load, and which are not."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfprov.engine.prepare import Wishes, prepare
from tfprov.engine.report import Quiet
from tfprov.errors import InvalidInput


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield listening


def inventory(server: socket.socket, **settings: str) -> Path:
    """Write an inventory whose host is on the port of a server, which is asked for nothing but to be connected to."""
    tfprov = {
        "cluster": "lab",
        "image": "{name: 'x:1'}",
        "command": "[python, x.py]",
        "address": "10.0.0.1",
        **settings,
    }
    said = ", ".join(f"{name}: {value}" for name, value in tfprov.items())
    path = Path("inventory.yml")
    path.write_text(
        f"all: {{vars: {{tfprov: {{{said}}}}}}}\n"
        f"worker: {{hosts: {{n1: {{ansible_host: 127.0.0.1, ansible_port: {server.getsockname()[1]}}}}}}}\n"
    )
    return path


def first(server: socket.socket) -> int:
    """Return the port of whoever connected first."""
    connection, (_, port) = server.accept()
    connection.close()
    return int(port)


def knocked(server: socket.socket) -> int:
    """Connect oneself, and return the port."""
    with socket.create_connection(server.getsockname()) as own:
        return int(own.getsockname()[1])


def test_hosts_are_connected_to_while_other_things_load(server: socket.socket) -> None:
    context = prepare(inventory(server), (), Quiet(), Wishes(everywhere=True))
    try:
        assert first(server)
    finally:
        context.close()


def test_a_verb_that_may_need_none_of_them_connects_to_none(server: socket.socket) -> None:
    prepare(inventory(server), (), Quiet(), Wishes()).close()
    own = knocked(server)
    assert first(server) == own


def test_no_host_is_bothered_for_a_cluster_that_cannot_be(server: socket.socket) -> None:
    with pytest.raises(InvalidInput):
        prepare(inventory(server, tasks_per_host="70000", port="2222"), (), Quiet(), Wishes(everywhere=True))
    own = knocked(server)
    assert first(server) == own
