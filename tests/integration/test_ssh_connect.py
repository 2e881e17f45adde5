"""Open an SSH connection: host keys, authentication, gateways, ~/.ssh/config, and their errors."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.ssh_targets import error_of, target
from tests.support.sshd import Sshd, fingerprint, make_key, program, sshd
from tests.support.waiting import LONG, until
from tfprov.errors import Unreachable
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.errors import ConnectionDropped
from tfprov.hosts.ssh.host import SSHHost

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, agent or configuration of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), "LogLevel DEBUG1") as running:
        yield running


def refused(server: Sshd, /, **values: object) -> str:
    """The message with which a connection to `server` fails: one line that names the host."""
    with _unopened(target(server, **values)) as host, pytest.raises(Unreachable, match=r"^h1: [^\n]+$") as caught:
        host.open()
    return str(caught.value)


@contextmanager
def _unopened(at: SSHTarget) -> Iterator[SSHHost]:
    host = SSHHost(at)
    try:
        yield host
    finally:
        host.close()


def connects(at: SSHTarget) -> bool:
    with SSHHost(at) as host:
        return host.run(["true"]).code == 0


# -- host keys --------------------------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_before_anything_is_sent(server: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    log = server.directory / "log"
    before = len(log.read_text())
    message = refused(server, known_hosts=(known,), user="a-telling-name")
    shown = fingerprint(server.host_key.with_name("host_ed25519.pub"))
    assert message.startswith(f"h1: unknown host key ssh-ed25519 {shown}; compare it with `ssh-keygen -lf /etc/ssh/")
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> {known}" in message
    assert "--accept-new" in message
    assert not known.exists()
    until_logged(log, before, " by 127.0.0.1 port")
    assert "a-telling-name" not in log.read_text()[before:]


def until_logged(log: Path, start: int, text: str) -> None:
    until(lambda: text in log.read_text()[start:], f"{text} is in the log of sshd", pause=0.01)


def test_a_first_contact_is_recorded_once_and_for_the_owner_only(server: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "new" / "known_hosts"
    with ThreadPoolExecutor(6) as pool:
        at = target(server, known_hosts=(known, tmp_path / "other"), accept_new=True)
        assert all(pool.map(connects, [at] * 6))
    assert known.read_text() == f"[127.0.0.1]:{server.port} {server.public()}\n"
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    assert connects(target(server, known_hosts=(known,)))
    keyscan = ["ssh-keygen", "-F", f"[127.0.0.1]:{server.port}", "-f", str(known)]
    assert subprocess.run(keyscan, capture_output=True, check=False).returncode == 0


def test_a_changed_host_key_is_refused_with_every_option(tmp_path: Path) -> None:
    with sshd(tmp_path / "h") as server:
        old = fingerprint(server.host_key.with_name("host_ed25519.pub"))
        server.stop()
        make_key(server.host_key)
        server.start()
        before = server.known_hosts.read_text()
        for accept_new in (False, True):
            message = refused(server, accept_new=accept_new)
            new = fingerprint(server.host_key.with_name("host_ed25519.pub"))
            assert message.startswith(
                f"h1: THE HOST KEY HAS CHANGED: ssh-ed25519 {new}, but {server.known_hosts}:1 has"
            )
            assert old in message
            remedy = re.findall(r"`(ssh-keygen -R [^`]+)`", message)
        assert server.known_hosts.read_text() == before
        subprocess.run(["sh", "-c", *remedy], capture_output=True, check=True)
        assert "unknown host key" in refused(server)
        server.trust()
        assert connects(target(server))


def test_the_known_key_type_is_requested(tmp_path: Path) -> None:
    keys = [make_key(tmp_path / kind, kind) for kind in ("ecdsa", "rsa")]
    with sshd(tmp_path / "h", *(f"HostKey {key}" for key in keys)) as server:
        for key in keys:
            server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {server.public(key)}\n")
            assert connects(target(server))


def test_a_revoked_key_and_a_key_known_only_by_a_ca_are_refused(server: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    plain = server.known_hosts.read_text()
    known.write_text(f"# a comment\n@revoked * {server.public()}\n{plain}")
    assert f"is revoked by {known}:2" in refused(server, known_hosts=(known,))
    known.write_text(f"@cert-authority *,[127.*]:* {server.public()}\n")
    message = refused(server, known_hosts=(known,), accept_new=True)
    assert f"known only by a certificate authority ({known}:1), which is not supported" in message
    known.write_text(f"@cert-authority * {server.public()}\nnonsense\n|1|bad|hash ssh-rsa AAAA\n\xff\n{plain}")
    assert connects(target(server, known_hosts=(known,)))


def test_known_hosts_that_cannot_be_read_or_written(server: Sshd, tmp_path: Path) -> None:
    assert refused(server, known_hosts=(tmp_path,)).endswith("Is a directory; make it readable")
    (tmp_path / "file").write_text("")
    message = refused(server, known_hosts=(tmp_path / "file" / "known_hosts",), accept_new=True)
    assert "its key could not be recorded" in message


def test_the_options_of_ssh_hold_for_the_connection(tmp_path: Path) -> None:
    keys = [make_key(tmp_path / kind, kind) for kind in ("ecdsa", "rsa")]
    with sshd(tmp_path / "h", *(f"HostKey {key}" for key in keys)) as server:
        lines = [f"[127.0.0.1]:{server.port} {server.public(key)}\n" for key in keys]
        server.known_hosts.write_text(lines[1])
        assert connects(target(server, address_family="inet", authentications=("publickey",)))
        assert "HAS CHANGED" in refused(server, host_key_algorithms="ecdsa-*")
        server.known_hosts.write_text("".join(lines))
        assert connects(target(server, host_key_algorithms="rsa-sha2-512", identities_only=True))
        assert "no IPv6 address for 127.0.0.1" in refused(server, address_family="inet6")
        assert "no password for" in refused(server, authentications=("password",))


# -- logging in -------------------------------------------------------------------------------------------------------


def test_refused_keys_are_named_with_the_user(server: Sshd, tmp_path: Path) -> None:
    other, missing = make_key(tmp_path / "other"), tmp_path / "missing"
    message = refused(server, key_files=(other, missing))
    assert re.match(rf"h1: \S+@127.0.0.1:{server.port} refused {other} \({missing} does not exist\); ", message)
    assert "ansible_ssh_private_key_file" in message
    (tmp_path / "text").write_text("no key")
    assert f"{tmp_path / 'text'} is not a usable private key" in refused(server, key_files=(tmp_path / "text",))
    assert re.match(rf"h1: no key for \S+@127.0.0.1:{server.port}; ", refused(server, key_files=()))


def test_a_configured_password_is_offered(server: Sshd) -> None:
    message = refused(server, key_files=(), password="secret")
    assert "it accepts only: publickey" in message
    assert "secret" not in message
    assert "secret" not in repr(target(server, password="secret"))


def test_the_usual_keys_are_tried_where_none_is_named(server: Sshd) -> None:
    usual = Path.home() / ".ssh" / "id_ed25519"
    usual.parent.mkdir(parents=True)
    shutil.copy(server.user_key, usual)
    assert connects(target(server, key_files=()))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Runs ssh-agent; called with a key without a passphrase, it adds that."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL)
    asked = ["ssh-add", "-l"]
    until(lambda: subprocess.run(asked, capture_output=True, check=False).returncode != 2, "it answers", pause=0.01)

    def add(key: Path) -> None:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True)

    yield add
    process.terminate()
    process.wait()


def test_an_encrypted_key_is_used_through_the_agent(
    server: Sshd, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    key = Path(shutil.copy(server.user_key, tmp_path / "mine"))
    shutil.copy(server.user_key.with_name("user_ed25519.pub"), tmp_path / "mine.pub")
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", str(key)], check=True, capture_output=True)
    assert f"{key} is encrypted and not in the agent (ssh-add)" in refused(server, key_files=(key,))
    agent(server.user_key)
    assert connects(target(server, key_files=(key,)))
    assert connects(target(server, key_files=()))


def test_too_many_keys_and_wrong_keys_have_different_errors(
    server: Sshd, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    for number in range(7):
        agent(make_key(tmp_path / f"key{number}"))
    message = refused(server, key_files=())
    assert "closed the connection after too many attempts" in message
    assert "2 more" in message
    assert connects(target(server))  # the key that is named comes first


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")  # paramiko leaves the agent's socket open
def test_an_agent_that_is_not_there_is_no_problem(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nonexistent/agent")
    assert connects(target(server))


# -- the network ------------------------------------------------------------------------------------------------------


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[tuple[int, list[socket.socket]]]:
    """A listener that does `answer` with every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                taken.append(connection)
                with suppress(OSError):  # whoever connected may hang up before it has heard all
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], taken
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()


def test_a_closed_port(server: Sshd) -> None:
    message = refused(server, port=1)
    assert message == "h1: 127.0.0.1:1 refused the connection; start sshd there, or correct `ansible_port`"


def test_an_unknown_host_name(server: Sshd) -> None:
    message = refused(server, address="no-such-host.invalid")
    assert message == "h1: no address for no-such-host.invalid; correct `ansible_host`, or look at DNS"


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"], ids=["silent", "greets and stops"])
def test_a_silent_listener(server: Sshd, greeting: bytes) -> None:
    with answering(lambda connection: connection.sendall(greeting)) as (port, _):
        began = time.monotonic()
        message = refused(server, port=port, connect_timeout=0.5)
        assert time.monotonic() - began < 14, "before paramiko's own limit of 15 s, on a machine however busy"
    assert message.startswith(f"h1: 127.0.0.1:{port} accepted the connection but sent no SSH banner within 0.5 s; ")


def test_packets_that_are_swallowed(server: Sshd) -> None:
    with socket.socket() as full:  # with no room left in its queue, the kernel drops who knocks
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(("127.0.0.1", port))
            message = refused(server, port=port, connect_timeout=0.5)
    assert message.startswith(f"h1: no answer from 127.0.0.1:{port} within 0.5 s; is it switched on?")


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 60, b"SSH-1.5-old\r\n", bytes(range(256)) * 9],
    ids=["a web server", "an old sshd", "bytes"],
)
def test_something_else_that_listens(server: Sshd, garbage: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)

    with answering(answer) as (port, _):
        message = refused(server, port=port, connect_timeout=LONG, retry_pauses=(0.01,))
    assert re.match(rf"h1: 127\.0\.0\.1:{port} .*(SSH|sshd)", message)


def test_a_connection_that_is_dropped_at_once_is_tried_again(server: Sshd) -> None:
    with answering(lambda connection: connection.close()) as (port, taken):
        with _unopened(target(server, port=port, retry_pauses=(0.01, 0.01))) as host:
            message = error_of(host.open, ConnectionDropped)
        assert len(taken) == 3
    assert message.startswith(f"h1: 127.0.0.1:{port} closed the connection before it was made; ")
    assert "MaxStartups" in message


def test_more_newcomers_than_sshd_takes_all_get_in(tmp_path: Path) -> None:
    pauses = (0.1, 0.3, 1.0, 2.5, 5.0, *[10.0] * 12)  # also where each takes its time
    with sshd(tmp_path / "h", "MaxStartups 2:100:2") as server, ThreadPoolExecutor(6) as pool:
        assert all(pool.map(connects, [target(server, retry_pauses=pauses)] * 6))


# -- ~/.ssh/config and gateways ---------------------------------------------------------------------------------------


def configured(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config"
    path.write_text(text)
    return path


def test_all_options_can_come_from_ssh_config(server: Sshd, tmp_path: Path) -> None:
    configuration = configured(
        tmp_path,
        f"Host node*\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {server.user_key}\n"
        f" UserKnownHostsFile {server.known_hosts}\n User nobody-of-that-name\n",
    )
    at = SSHTarget("h1", "node1", ssh_config=configuration)
    with _unopened(at) as host:
        assert "nobody-of-that-name@127.0.0.1" in error_of(host.open, Unreachable)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    with SSHHost(SSHTarget("h1", "node1", user=user, ssh_config=configuration)) as host:
        assert host.run(["id", "-un"]).text.strip() == user
        assert host.user == user


def test_gateways_are_gone_through_and_checked_like_hosts(server: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "gateway") as gateway:
        identity = f" IdentityFile {gateway.user_key}\n UserKnownHostsFile {gateway.known_hosts}\n"
        configuration = configured(
            tmp_path,
            f"Host inner\n HostName 127.0.0.1\n Port {server.port}\n ProxyJump outer\n"
            f"Host outer\n HostName 127.0.0.1\n Port {gateway.port}\n{identity}",
        )
        at = SSHTarget("h1", "inner", key_files=(server.user_key,), ssh_config=configuration)
        known = tmp_path / "both"
        known.write_text(server.known_hosts.read_text() + gateway.known_hosts.read_text())
        with SSHHost(SSHTarget(**vars(at) | {"known_hosts": (known,)})) as host:
            assert host.run(["echo", "through"]).text == "through\n"
            assert len(gateway.children()) == 1
        gateway.known_hosts.write_text("")
        with _unopened(at) as host, pytest.raises(Unreachable, match=r"^h1: gateway outer: unknown host key"):
            host.open()
        gateway.stop()
        with _unopened(at) as host, pytest.raises(Unreachable, match=r"^h1: gateway outer: .* refused the connection"):
            host.open()


def test_a_host_behind_a_gateway_that_cannot_be_reached(server: Sshd, tmp_path: Path) -> None:
    with sshd(tmp_path / "gateway") as gateway:
        gateway.trust()
        known = tmp_path / "known"
        known.write_text(gateway.known_hosts.read_text())
        configuration = configured(tmp_path, f"Host gw\n HostName 127.0.0.1\n IdentityFile {gateway.user_key}\n")
        at = SSHTarget(
            "h1", "127.0.0.1", port=1, key_files=(server.user_key,), known_hosts=(known,), ssh_config=configuration,
            proxy_jump=f"gw:{gateway.port}",
        )  # fmt: skip
        with _unopened(at) as host:
            assert "127.0.0.1:1" in error_of(host.open, Unreachable)


RELAY = """
import os, socket, sys, threading
end = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := end.recv(65536): os.write(1, data)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536): end.sendall(data)
"""


def test_a_proxy_command_takes_the_place_of_the_network(server: Sshd, tmp_path: Path) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    command = f"{sys.executable} {relay} %h %p"
    with SSHHost(target(server, proxy_command=command)) as host:
        assert host.run(["cat"], input=bytes(1_000_000)).stdout == bytes(1_000_000)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [child for child in children if b"relay" in Path(f"/proc/{child}/cmdline").read_bytes()]
    with _unopened(target(server, proxy_command="exit 1", retry_pauses=(0.01,))) as host:
        assert "(through `exit 1`) closed the connection" in error_of(host.open, ConnectionDropped)
