"""The record of a cluster's hosts: what is noted is read back, what is dropped is gone, and no secret is kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tfprov.engine.host_registry import HostRegistry
from tfprov.errors import Position
from tfprov.settings.connection import ConnectionSettings

RECORDED = Position("(recorded)")
FULL = ConnectionSettings(
    host="node1",
    at=RECORDED,
    address="10.0.0.11",
    port=2200,
    user="trainer",
    local=False,
    key_files=(Path("/keys/one"), Path("/keys/two")),
    become=True,
    timeout=3.0,
    proxy_jump="gate",
    ssh_config=Path("/etc/own"),
    known_hosts=(Path("/known"),),
    accept_new=True,
    identities_only=True,
    authentications=("publickey", "password"),
    host_key_algorithms="ssh-ed25519",
    address_family="inet",
)
PLAIN = ConnectionSettings("node2", RECORDED, "10.0.0.12", None, None, local=False)


def test_recorded_hosts_are_read_back(tmp_path: Path) -> None:
    record = HostRegistry(tmp_path / "new")
    assert record.read() == {}
    record.add({"node1": FULL})
    record.add({"node2": PLAIN})
    assert record.read() == {"node1": FULL, "node2": PLAIN}


def test_a_record_stays_readable_for_later_versions(tmp_path: Path) -> None:
    record = HostRegistry(tmp_path)
    record.add({"node1": FULL})
    assert json.loads((tmp_path / "hosts.json").read_text()) == {
        "node1": {
            "address": "10.0.0.11", "port": 2200, "user": "trainer", "local": False, "become": True, "timeout": 3.0,
            "key_files": ["/keys/one", "/keys/two"], "proxy_jump": "gate", "proxy_command": None, "ssh_config": "/etc/own",
            "known_hosts": ["/known"], "accept_new": True, "identities_only": True,
            "authentications": ["publickey", "password"], "host_key_algorithms": "ssh-ed25519", "address_family": "inet",
        }
    }  # fmt: skip


def test_a_record_of_an_earlier_version_lacks_what_came_later(tmp_path: Path) -> None:
    record = HostRegistry(tmp_path)
    record.add({"node1": FULL})
    facts = json.loads((tmp_path / "hosts.json").read_text())["node1"]
    later = ("identities_only", "authentications", "host_key_algorithms", "address_family")
    earlier = {name: value for name, value in facts.items() if name not in later}
    (tmp_path / "hosts.json").write_text(json.dumps({"node1": earlier}))
    without = replace(FULL, identities_only=None, authentications=(), host_key_algorithms=None, address_family=None)
    assert record.read() == {"node1": without}


def test_dropped_hosts_are_forgotten_completely(tmp_path: Path) -> None:
    record = HostRegistry(tmp_path)
    record.add({"node1": FULL, "node2": PLAIN, "node3": replace(PLAIN, host="node3")})
    record.drop(iter(["node1", "node3"]))
    assert record.read() == {"node2": PLAIN}
    record.drop(["node2", "nobody"])
    assert record.read() == {}


def test_a_password_is_not_kept(tmp_path: Path) -> None:
    record = HostRegistry(tmp_path)
    record.add({"node2": replace(PLAIN, password="s3cret")})
    assert "s3cret" not in (tmp_path / "hosts.json").read_text()
    assert (tmp_path / "hosts.json").stat().st_mode & 0o777 == 0o600
    assert record.read() == {"node2": PLAIN}


@pytest.mark.parametrize("damaged", [3, {"address": "x"}, {"key_files": 7}, None], ids=repr)
def test_a_damaged_entry_costs_no_other_host(tmp_path: Path, damaged: object) -> None:
    record = HostRegistry(tmp_path)
    record.add({"node1": FULL, "node2": PLAIN})
    hosts = json.loads((tmp_path / "hosts.json").read_text())
    hosts["node2"] = {**hosts["node2"], **damaged} if isinstance(damaged, dict) and "key_files" in damaged else damaged
    (tmp_path / "hosts.json").write_text(json.dumps(hosts))
    assert record.read() == {"node1": FULL}
    record.add({"node3": replace(PLAIN, host="node3")})
    assert set(record.read()) == {"node1", "node3"}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"node1": 3}', '{"node1": {"address": "x"}}'], ids=repr)
def test_a_damaged_record_stops_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.json").write_text(text)
    record = HostRegistry(tmp_path)
    assert record.read() == {}
    record.add({"node2": PLAIN})
    assert record.read() == {"node2": PLAIN}
