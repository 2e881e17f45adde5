"""The effect of `-o IdentitiesOnly`, `PreferredAuthentications`, `HostKeyAlgorithms`, `-4` and `-6` on a connection."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tfprov.engine.connect import prepare_connections
from tfprov.errors import Unreachable
from tfprov.hosts.ssh.client_config import Hop, SSHTarget, route
from tfprov.hosts.ssh.connection import ProxySocket, dial
from tfprov.hosts.ssh.host_keys import host_key_algorithms
from tfprov.settings.load import load

OFFERED = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
HOP = Hop("h1", "127.0.0.1", 22, "trainer", "127.0.0.1", (), (Path("/known"),))
KNOWN = ("ecdsa-sha2-nistp256",)
ALGORITHMS = {
    None: ("ecdsa-sha2-nistp256", "ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"),
    "rsa-sha2-256,ssh-ed25519": ("rsa-sha2-256", "ssh-ed25519"),
    "ssh-dss,ssh-ed25519": ("ssh-ed25519",),
    "rsa-*": ("rsa-sha2-512", "rsa-sha2-256"),
    "+ssh-rsa": ("ecdsa-sha2-nistp256", "ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"),
    "-ecdsa-*,ssh-ed25519": ("rsa-sha2-512", "rsa-sha2-256"),
    "^rsa-sha2-256": ("rsa-sha2-256", "ecdsa-sha2-nistp256", "ssh-ed25519", "rsa-sha2-512"),
}


def test_host_key_algorithms_are_interpreted_as_by_ssh() -> None:
    algorithms = {
        option: host_key_algorithms(replace(HOP, host_key_algorithms=option), KNOWN, OFFERED) for option in ALGORITHMS
    }
    assert algorithms == ALGORITHMS
    with pytest.raises(
        Unreachable, match=r"^h1: HostKeyAlgorithms=ssh-dss leaves no algorithm that tfprov supports; it supports ssh-"
    ):
        host_key_algorithms(replace(HOP, host_key_algorithms="ssh-dss"), KNOWN, OFFERED)


def test_inventory_options_apply_to_the_host_and_override_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host gate\n  IdentitiesOnly yes\n  AddressFamily inet6\nHost *\n"
        "  PreferredAuthentications password, publickey\n  HostKeyAlgorithms ssh-rsa\n"
    )
    target = SSHTarget(
        "h1", "10.0.0.1", ssh_config=config, proxy_jump="gate", identities_only=True, authentications=("publickey",),
        host_key_algorithms="ssh-ed25519", address_family="inet",
    )  # fmt: skip
    gate, host = route(target)
    assert (gate.identities_only, gate.authentications) == (True, ("password", "publickey"))
    assert (gate.host_key_algorithms, gate.address_family) == ("ssh-rsa", "inet6")
    assert (host.identities_only, host.authentications) == (True, ("publickey",))
    assert (host.host_key_algorithms, host.address_family) == ("ssh-ed25519", "inet")
    assert not route(replace(target, address="gate", proxy_jump=None, identities_only=False))[-1].identities_only


INVENTORY = """\
worker:
  hosts:
    h1: {ansible_host: 10.0.0.1}
  vars:
    ansible_ssh_common_args: >-
      -4 -o IdentitiesOnly=yes -o PreferredAuthentications=password -o HostKeyAlgorithms=ssh-ed25519
    tfprov: {cluster: c, command: [x], image: {name: "x:1"}, strategy: single}
"""


def test_ssh_arguments_of_an_inventory_reach_the_connection(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(INVENTORY)
    inventory, roles = load(tmp_path / "i.yml")
    connections = prepare_connections(inventory, roles, tmp_path / "home", accept_new=False)
    hop = route(connections.ssh["h1"].target)[-1]
    connections.close()
    assert (hop.identities_only, hop.authentications) == (True, ("password",))
    assert (hop.host_key_algorithms, hop.address_family) == ("ssh-ed25519", "inet")


def test_a_socket_uses_the_configured_address_family() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hop = replace(HOP, port=server.getsockname()[1])
        assert dial(hop, 1.0) is None
        sock = dial(replace(hop, address_family="inet"), 1.0)
        assert sock is not None
        with sock:
            assert sock.getpeername() == server.getsockname()
        with pytest.raises(Unreachable, match=r"^h1: no IPv6 address for 127.0.0.1; correct `ansible_host`, or allow"):
            dial(replace(hop, address_family="inet6"), 1.0)
    with pytest.raises(ConnectionRefusedError):
        dial(replace(hop, address_family="inet"), 1.0)


def test_signals_of_the_terminal_do_not_reach_a_proxy_command() -> None:
    proxy = ProxySocket("sh -c 'ps -o sid= -p $$; cat'")
    try:
        session = int(proxy.recv(64))
        assert session != os.getsid(0)
    finally:
        proxy.close()
