"""From an inventory to what a verb works with: which connections are begun while other things load, and which are not."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfprov.engine.prepare import Wishes, prepare
from tfprov.engine.report import Quiet
from tfprov.errors import HostError, InvalidInput


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


BEFORE_THE_ENGINE = {
    "a build directory that is not there": (
        "image: {build: ./nowhere}", "localhost: ",
        r"^inventory.yml:1:\d+: error: `image.build`: nowhere does not exist; give the directory that holds the Docker",
    ),
    "code that is not there": (
        "image: {name: 'x:1'}, code: ./nowhere", "localhost: ", r": error: `code`: nowhere does not exist; ",
    ),
    "a cluster that cannot be": (
        "image: {name: 'x:1'}, tasks_per_host: 2", "localhost: ", r" with 2 tasks that train needs a ps ",
    ),
    "a host's name that does not resolve": (
        "image: {name: 'x:1'}, strategy: multi_worker_mirrored", "localhost: , n1.invalid: ",
        r"^inventory.yml:2:31: error: the name n1.invalid has no IPv4 address; give its address as `ansible_host`$",
    ),
    "an address that does not resolve": (
        "image: {name: 'x:1'}, strategy: multi_worker_mirrored", "localhost: , n1: {ansible_host: x.invalid}",
        r"^inventory.yml:2:50: error: the name x.invalid has no IPv4 address; correct `ansible_host`, or look at DNS$",
    ),
    "an address of tfprov's own that does not resolve": (
        "image: {name: 'x:1'}", "n1: {tfprov: {address: x.invalid}}",
        r"^inventory.yml:2:32: error: the name x.invalid has no IPv4 address; correct `address`, or look at DNS$",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "hosts", "words"), BEFORE_THE_ENGINE.values(), ids=BEFORE_THE_ENGINE)
def test_what_is_wrong_without_a_host_is_told_though_the_engine_does_not_run(
    settings: str, hosts: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    Path("inventory.yml").write_text(
        f"all: {{vars: {{tfprov: {{cluster: lab, command: [python, x.py], {settings}}}}}}}\n"
        f"worker: {{hosts: {{{hosts}}}}}\n"
    )
    with pytest.raises(InvalidInput, match=words):
        prepare(Path("inventory.yml"), (), Quiet(), Wishes())


def test_an_engine_that_does_not_run_is_told_where_nothing_else_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    Path("inventory.yml").write_text(
        "all: {vars: {tfprov: {cluster: lab, command: [python, x.py], image: {name: 'x:1'}}}}\n"
        "worker: {hosts: {localhost: }}\n"
    )
    with pytest.raises(HostError, match=r"^localhost: its Docker engine does not run"):
        prepare(Path("inventory.yml"), (), Quiet(), Wishes())
