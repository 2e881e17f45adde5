"""First contact: the user confirms host keys of real servers, also behind a gateway."""

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.sshd import Sshd, fingerprint, program, sshd
from tests.support.waiting import until
from tfprov.engine.checks.collect import trust_new
from tfprov.errors import HostError
from tfprov.hosts.machine import SSHMachine
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.host_keys import UnknownHostKey

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")
MINE = "# mine\nelsewhere ssh-ed25519 AAAA\n"


@dataclass
class Person:
    """Remembers what it was asked, and gives the answer of the test."""

    answer: Callable[[UnknownHostKey], bool]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, unknown: UnknownHostKey) -> bool:
        self.asked.append((unknown.hop.label, unknown.shown_key))
        return self.answer(unknown)


def yes(_: UnknownHostKey) -> bool:
    return True


def no(_: UnknownHostKey) -> bool:
    return False


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, agent or configuration of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "gateway", "LogLevel DEBUG1") as running:
        yield running


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Sshd]]:
    with sshd(tmp_path / "h1") as one, sshd(tmp_path / "h2") as two:
        yield [one, two]


@pytest.fixture
def machines(gateway: Sshd, servers: list[Sshd], tmp_path: Path) -> Iterator[list[SSHMachine]]:
    """Two hosts behind one gateway; nobody knows any of the three keys."""
    known, configuration = tmp_path / "known_hosts", tmp_path / "config"
    known.write_text(MINE)
    known.chmod(0o640)
    configuration.write_text(
        f"Host gate\n HostName 127.0.0.1\n Port {gateway.port}\n IdentityFile {gateway.user_key}\n"
    )
    made = [
        SSHMachine(
            SSHHost(
                SSHTarget(
                    f"h{number}", "127.0.0.1", port=server.port, key_files=(server.user_key,), known_hosts=(known,),
                    ssh_config=configuration, proxy_jump="gate",
                )
            )
        )
        for number, server in enumerate(servers, 1)
    ]  # fmt: skip
    yield made
    for machine in made:
        machine.close()


def key_of(server: Sshd) -> str:
    return f"ssh-ed25519 {fingerprint(server.host_key.with_name('host_ed25519.pub'))}"


def test_the_user_is_prompted_once_for_each_jump_host(
    machines: list[SSHMachine], gateway: Sshd, servers: list[Sshd], tmp_path: Path
) -> None:
    person = Person(yes)
    assert trust_new(machines, 4, person) == {}
    assert person.asked[0] == ("h1: gateway gate", key_of(gateway))
    assert person.asked[1:] == [("h1", key_of(servers[0])), ("h2", key_of(servers[1]))]
    assert [machine.run(["echo", "in"]) for machine in machines] == [(0, "in\n")] * 2
    known = tmp_path / "known_hosts"
    expected = [f"[127.0.0.1]:{server.port} {server.public()}\n" for server in (gateway, *servers)]
    assert known.read_text() == MINE + "".join(expected)
    assert stat.S_IMODE(known.stat().st_mode) == 0o640
    assert trust_new(machines, 4, person) == {}
    assert len(person.asked) == 3, "nothing is asked again"


def test_after_a_no_nothing_is_written_and_nothing_was_sent(
    machines: list[SSHMachine], gateway: Sshd, tmp_path: Path
) -> None:
    person = Person(no)
    lost = trust_new(machines, 4, person)
    assert person.asked == [("h1: gateway gate", key_of(gateway))]
    assert [str(error).partition(";")[0] for error in lost.values()] == [
        f"h{number}: gateway gate: unknown host key {key_of(gateway)}" for number in (1, 2)
    ]
    assert (tmp_path / "known_hosts").read_text() == MINE
    log = gateway.directory / "log"
    until(lambda: " by 127.0.0.1 port" in log.read_text(), "sshd has logged the end of the connection")
    assert "userauth-request" not in log.read_text()


def test_the_user_can_trust_one_host_and_refuse_another(machines: list[SSHMachine], servers: list[Sshd]) -> None:
    person = Person(lambda unknown: unknown.hop.label != "h1")
    assert list(trust_new(machines, 4, person)) == ["h1"]
    assert machines[1].run(["echo", "in"]) == (0, "in\n")


def test_a_changed_key_causes_no_prompt(machines: list[SSHMachine], gateway: Sshd, tmp_path: Path) -> None:
    other = " ".join((tmp_path / "h1" / "user_ed25519.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{gateway.port} {other}\n")
    person = Person(yes)
    lost = trust_new(machines, 4, person)
    assert person.asked == []
    assert all("THE HOST KEY HAS CHANGED" in str(error) for error in lost.values())


def test_a_key_added_during_the_prompt_is_kept(machines: list[SSHMachine], gateway: Sshd, tmp_path: Path) -> None:
    other = " ".join((tmp_path / "h1" / "user_ed25519.pub").read_text().split()[:2])
    known = tmp_path / "known_hosts"

    def late(_: UnknownHostKey) -> bool:
        known.write_text(f"[127.0.0.1]:{gateway.port} {other}\n")
        return True

    with pytest.raises(HostError, match="another run recorded a different key for it"):
        trust_new(machines, 4, Person(late))
    assert known.read_text() == f"[127.0.0.1]:{gateway.port} {other}\n"


def test_an_unwritable_known_hosts_is_reported(machines: list[SSHMachine], tmp_path: Path) -> None:
    (tmp_path / "known_hosts").unlink()

    def in_the_way(unknown: UnknownHostKey) -> bool:
        unknown.hop.known_hosts[0].mkdir()
        return True

    with pytest.raises(HostError, match=r"^h1: gateway gate: its key could not be recorded: Is a directory"):
        trust_new(machines, 4, Person(in_the_way))
