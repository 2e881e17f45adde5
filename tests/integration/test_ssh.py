"""Commands, streams, locks and port forwards over one connection to a real sshd on the loopback."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.ssh_targets import error_of, target
from tests.support.sshd import Sshd, program, sshd
from tests.support.waiting import LONG, until
from tfprov.errors import TfprovError, Unreachable
from tfprov.hosts.process.proc import identity
from tfprov.hosts.ssh.connection import MAX_SESSIONS
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden, TimedOut
from tfprov.hosts.ssh.host import HeldCommand, SSHHost
from tfprov.hosts.ssh.http_gate import TokenGate
from tfprov.hosts.ssh.receive_buffer import PACKET, WINDOW
from tfprov.hosts.ssh.stream import Stream

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh(server: Sshd) -> Iterator[SSHHost]:
    with SSHHost(target(server)) as connected:
        yield connected


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Sshd]:
    """An sshd that the test may break."""
    with sshd(tmp_path / "own") as running:
        yield running
    running.end_programs()


# -- commands -------------------------------------------------------------------------------------------------------


def test_every_argument_arrives_as_it_is(ssh: SSHHost) -> None:
    words = ["-rf", "", "a b", "it's", '"$HOME"', "new\nline", "`id`", "*", "\\", "~", "ünï", "#", "!", "--", "a;b&c|d"]
    done = ssh.run(["printf", "%s\\0", *words])
    assert done.text.split("\0")[:-1] == words
    assert (done.code, done.stderr) == (0, b"")


def test_a_program_whose_name_begins_with_a_dash_is_a_program(ssh: SSHHost) -> None:
    done = ssh.run(["-x"])
    assert (done.code, done.error_text) == (127, "sh: 1: -x: not found")


def test_a_null_byte_and_no_program_at_all_are_refused(ssh: SSHHost) -> None:
    assert "null byte" in error_of(lambda: ssh.run(["printf", "a\0b"]))
    assert "empty" in error_of(lambda: ssh.run([]))


def test_output_may_be_any_bytes(ssh: SSHHost) -> None:
    done = ssh.run(["printf", "\\377\\376ok"])
    assert done.stdout == b"\xff\xfeok"
    assert done.text == "\ufffd\ufffdok"


def test_ten_megabytes_each_way_at_once(ssh: SSHHost) -> None:
    size = 10_000_000
    done = ssh.run(["sh", "-c", "tee /dev/stderr"], input=bytes(size))
    assert (len(done.stdout), len(done.stderr), done.code) == (size, size, 0)


def test_input_may_come_in_pieces_and_need_not_be_read(ssh: SSHHost) -> None:
    assert ssh.run(["wc", "-c"], input=(bytes(1000) for _ in range(100))).text.strip() == "100000"
    assert ssh.run(["true"], input=bytes(50_000_000)).code == 0


def test_a_failing_input_is_the_callers_own_error(ssh: SSHHost) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        ssh.run(["cat"], input=pieces())
    assert ssh.run(["true"]).code == 0


def test_exit_codes_and_signals(ssh: SSHHost) -> None:
    assert ssh.run(["sh", "-c", "exit 7"]).code == 7
    assert ssh.run(["sh", "-c", "kill -TERM $$"]).code == 128 + signal.SIGTERM
    assert ssh.run(["nope"]).code == 127


def test_a_command_has_a_time_limit_and_the_connection_survives_it(ssh: SSHHost, server: Sshd) -> None:
    message = error_of(lambda: ssh.run(["sleep", "2345"], timeout=0.3), TimedOut)
    assert message == "h1: `sleep 2345` did not end within 0.3 s, and may still be running"
    running: list[int] = until(lambda: server.programs(b"sleep 2345"), "it runs still")
    assert ssh.run(["echo", "on"]).text == "on\n"
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def test_sudo_that_asks_for_a_password_is_explained(own: Sshd) -> None:
    sudo = own.directory / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")
    sudo.chmod(0o755)
    # What the host's PATH finds first plays sudo.
    own.stop()
    own.options = (f"SetEnv PATH={own.directory}:/usr/bin:/bin",)
    own.start()
    with SSHHost(target(own)) as ssh:
        message = error_of(lambda: ssh.run(["id"], sudo=True))
        assert message.startswith("h1: sudo: a password is required; allow ")
        sudo.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] && shift 2 && exec "$@" root\n')
        assert ssh.run(["echo", "a  b"], sudo=True).text == "a  b root\n"


# -- one connection, few sessions -----------------------------------------------------------------------------------


def test_many_threads_share_one_connection_and_eight_sessions(own: Sshd) -> None:
    ssh = SSHHost(target(own))
    with ThreadPoolExecutor(24) as pool:
        texts = list(pool.map(lambda number: ssh.run(["echo", str(number)]).text, range(72)))
    assert texts == [f"{number}\n" for number in range(72)]
    assert len(own.children()) == 1
    ssh.close()
    ssh.close()
    assert error_of(lambda: ssh.run(["true"])) == "h1: the connection was closed"
    until(lambda: not own.children(), "the connection is gone")


def test_programs_that_end_before_their_input_leave_the_connection_alone(own: Sshd) -> None:
    """Whoever sends on a channel that the host has just closed is disconnected by OpenSSH."""
    with SSHHost(target(own)) as ssh, ThreadPoolExecutor(24) as pool:
        connection = ssh.open()
        codes = pool.map(lambda size: ssh.run(["true"], input=[bytes(100)] * (size % 7)).code, range(300))
        assert set(codes) == {0}
        assert ssh.open() is connection


@pytest.mark.parametrize("sessions", [1, 2])
def test_an_sshd_with_few_sessions_is_enough(tmp_path: Path, sessions: int) -> None:
    with (
        sshd(tmp_path, f"MaxSessions {sessions}") as small,
        SSHHost(target(small)) as ssh,
        ThreadPoolExecutor(8) as pool,
    ):
        assert set(pool.map(lambda _: ssh.run(["true"]).code, range(16))) == {0}
        streams = [ssh.stream(["cat"]) for _ in range(MAX_SESSIONS - 1)]
        assert ssh.run(["true"]).code == 0
        for number, stream in enumerate(streams):
            stream.sendall(b"%d\n" % number)
        assert [stream.recv(2) for stream in streams] == [b"%d\n" % number for number in range(MAX_SESSIONS - 1)]
        assert len(small.children()) <= MAX_SESSIONS
        ssh.close()
        until(lambda: not small.children(), "all connections are gone")


def test_a_host_with_few_sessions_that_refuses_a_second_connection(tmp_path: Path) -> None:
    with sshd(tmp_path, "MaxSessions 2") as small, SSHHost(target(small)) as ssh:
        first, second = ssh.stream(["cat"]), ssh.stream(["cat"])
        (small.directory / "authorized_keys").write_text("")
        patient, ssh.target = ssh.target, replace(ssh.target, command_timeout=0.4)
        message = error_of(lambda: ssh.run(["true"]))
        ssh.target = patient
        assert message == "h1: no free SSH session within 0.4 s; raise MaxSessions in its sshd_config to 10 or more"
        first.close()
        assert ssh.run(["true"]).code == 0
        second.close()


# -- streams and locks ----------------------------------------------------------------------------------------------


def test_a_stream_carries_both_directions(ssh: SSHHost) -> None:
    with ssh.stream(["cat"]) as stream:
        stream.sendall(b"ping\n")
        assert stream.recv(100) == b"ping\n"
        with stream.makefile("rw") as file:
            file.write(b"a line\nrest")
            file.flush()
            assert file.readline() == b"a line\n"
            stream.shutdown_write()
            assert file.read() == b"rest"
        assert stream.wait(LONG) == 0
        assert not stream.is_open
    assert error_of(lambda: stream.sendall(b"more")).startswith("h1: the host closed the channel: `cat`")


def test_a_stream_has_its_own_time_limit(ssh: SSHHost) -> None:
    with ssh.stream(["cat"]) as stream:
        stream.settimeout(0.1)
        assert error_of(lambda: stream.recv(1), TimedOut) == "h1: no answer in time: `cat`"


def _is_over(hold: HeldCommand) -> bool:
    return not hold.alive


def _has_ended(pid: int) -> bool:
    return identity(pid) is None


def test_a_held_command_lives_exactly_as_long_as_its_channel(own: Sshd) -> None:
    ssh = SSHHost(target(own))
    ends: tuple[Callable[[HeldCommand], None], ...] = (lambda hold: hold.close(), lambda _: own.cut())
    for end in ends:
        with ssh.hold(["sh", "-c", "echo $$; sleep 600 & wait"]) as hold:
            pid = int(hold.first_line)
            assert hold.alive
            end(hold)
            until(partial(_has_ended, pid), "the command has ended")
            until(partial(_is_over, hold), "that is known here")
    ssh.close()


def test_a_held_command_that_ignores_sigterm_ends_all_the_same(ssh: SSHHost) -> None:
    with ssh.hold(["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"]) as hold:
        pid = int(hold.first_line)
    until(partial(_has_ended, pid), "the command has ended")


def test_a_lock_is_free_as_soon_as_its_holder_has_gone(ssh: SSHHost, tmp_path: Path) -> None:
    command = ["flock", "-n", "-E", "75", str(tmp_path / "lock"), "sh", "-c", "echo held; exec sleep 600"]
    with ssh.hold(command) as first:
        assert (first.first_line, first.alive) == ("held", True)
        with ssh.hold(command) as second:
            assert second.first_line == ""
            assert second.wait(LONG) == 75
            assert not second.alive
    until(lambda: _held(ssh, command), "the lock is free")


def _held(ssh: SSHHost, command: list[str]) -> bool:
    with ssh.hold(command) as hold:
        return hold.first_line == "held"


# -- port forwards --------------------------------------------------------------------------------------------------


def ask(port: int, data: bytes = b"?") -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def echoing(name: bytes) -> Callable[[Stream], None]:
    def serve(stream: Stream) -> None:
        while data := stream.recv(65536):
            stream.sendall(name + data)

    return serve


def test_reverse_forwards_lead_each_to_its_own_server(ssh: SSHHost) -> None:
    with ssh.remote_forward(echoing(b"one")) as one, ssh.remote_forward(echoing(b"two")) as two:
        assert (ask(one), ask(two)) == (b"one?", b"two?")
        with ssh.remote_forward(echoing(b"three")) as three:
            assert ask(three) == b"three?"
        with pytest.raises(ConnectionError):
            ask(three)
        assert (ask(one), ask(two)) == (b"one?", b"two?")  # the end of one leaves the others alone
        with ThreadPoolExecutor(40) as pool:
            assert set(pool.map(ask, [one] * 40)) == {b"one?"}


def test_a_host_may_send_larger_packets_than_paramiko_asks_for_and_more_of_them(ssh: SSHHost) -> None:
    session = ssh.open().try_session()
    assert (session.in_max_packet_size, session.in_window_size) == (PACKET, WINDOW)
    session.close()


def test_a_closed_reverse_forward_ends_its_connections_and_reports_a_bug(ssh: SSHHost) -> None:
    entered = threading.Event()

    def serve(stream: Stream) -> None:
        entered.set()
        stream.recv(1)
        raise LookupError("mine")

    def visit() -> None:
        with (
            ssh.remote_forward(serve) as port,
            socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection,
        ):
            assert entered.wait(LONG)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b"", "who serves has left, and what it raised is known"

    with pytest.raises(LookupError, match="mine"):
        visit()
    with ssh.remote_forward(echoing(b"")) as port:
        idle = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        until(lambda: ssh.open().open_channels, "the connection has come in")
    assert idle.recv(1) == b""
    idle.close()


def test_a_local_forward_reaches_the_hosts_network_and_requires_the_token(ssh: SSHHost) -> None:
    gate = TokenGate()
    with ssh.remote_forward(echoing(b"")) as back, ssh.local_forward("127.0.0.1", back, gate=gate) as forth:
        allowed = f"POST / HTTP/1.1\r\nCookie: {gate.cookie(forth)}\r\n\r\n".encode() + bytes(3_000_000)
        assert ask(forth, allowed) == allowed
        assert ask(forth, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403 ")
        assert ask(forth, b"PRI * HTTP/2.0\r\n\r\n").startswith(b"HTTP/1.1 403 ")
        assert ask(forth, b"no request at all") == b""
        with pytest.raises(ConnectionError):  # it listens on this one address of this machine
            socket.create_connection(("127.0.0.2", forth)).close()
    with pytest.raises(ConnectionError):
        ask(forth)


def test_a_local_forward_to_a_closed_port_fails_for_the_client(ssh: SSHHost, server: Sshd) -> None:
    gate = TokenGate()
    with ssh.local_forward("127.0.0.1", 1, gate=gate) as port:
        assert ask(port, f"GET / HTTP/1.1\r\nCookie: {gate.cookie(port)}\r\n\r\n".encode()) == b""
    assert not ssh.is_listening("127.0.0.1", 1)
    assert ssh.is_listening("127.0.0.1", server.port)


def test_an_sshd_without_forwarding_is_recognized(tmp_path: Path) -> None:
    with sshd(tmp_path, "AllowTcpForwarding no") as strict, SSHHost(target(strict)) as ssh:
        forwards = (ssh.remote_forward(echoing(b"")), ssh.local_forward("127.0.0.1", 22, gate=TokenGate()))
        for forward in forwards:
            assert "AllowTcpForwarding" in error_of(forward.__enter__, ForwardingForbidden)
        assert ssh.run(["true"]).code == 0


# -- the connection goes ---------------------------------------------------------------------------------------------


def test_an_interrupted_command_has_an_unknown_outcome_and_the_next_reconnects(own: Sshd) -> None:
    with SSHHost(target(own)) as ssh, ThreadPoolExecutor(2) as pool:
        running = pool.submit(ssh.run, ["sleep", "600"])
        until(lambda: own.programs(b"sleep 600"), "the command runs")
        own.cut()
        message = error_of(running.result, ConnectionLost)
        assert message == "h1: connection lost, outcome unknown: `sleep 600`; look at the host, and run this again"
        assert ssh.run(["echo", "again"]).text == "again\n"


def test_after_a_cut_every_method_fails_in_our_own_words(own: Sshd) -> None:
    ssh = SSHHost(target(own))
    stream, hold = ssh.stream(["cat"]), ssh.hold(["sh", "-c", "echo on; sleep 3600"])
    connection = ssh.open()
    own.cut()
    until(lambda: not connection.alive, "the loss is noticed")
    on_it: list[Callable[[], object]] = [
        lambda: stream.recv(1), lambda: stream.sendall(b"x"), lambda: stream.wait(LONG), lambda: hold.wait(LONG),
    ]  # fmt: skip
    for call in on_it:
        assert error_of(call, ConnectionLost).startswith("h1: connection lost, outcome unknown: `")
    assert (stream.is_open, hold.alive) == (False, False)
    own.stop()
    calls: list[Callable[[], object]] = [
        lambda: ssh.run(["true"]), lambda: ssh.stream(["cat"]), lambda: ssh.hold(["cat"]), ssh.open,
        ssh.remote_forward(echoing(b"")).__enter__, ssh.local_forward("127.0.0.1", 22, gate=TokenGate()).__enter__,
    ]  # fmt: skip
    for call in calls:
        assert f"127.0.0.1:{own.port} refused the connection; start sshd there" in error_of(call, Unreachable)
    for closable in (stream, hold, ssh):
        closable.close()


def test_a_frozen_host_is_noticed(own: Sshd) -> None:
    with SSHHost(target(own, keepalive_interval=0.1, keepalive_silence=5.0)) as ssh:
        clock = ssh.open().socket_clock
        before = clock.last_received
        until(lambda: clock.last_received > before, "a question was answered", pause=0.01)  # which does no harm
        stream = ssh.stream(["cat"])
        own.cut(signal.SIGSTOP)
        stream.settimeout(LONG)
        error_of(lambda: stream.recv(1), ConnectionLost)
        stream.close()


def test_closing_while_a_command_runs_ends_it_here(own: Sshd) -> None:
    ssh = SSHHost(target(own))
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(ssh.run, ["sleep", "600"])
        until(lambda: own.programs(b"sleep 600"), "the command runs")
        ssh.close()
        with pytest.raises(TfprovError):
            running.result(LONG)


def _descriptors() -> set[str]:
    """Return the number of each descriptor of this process, and what it is of."""
    result = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of this look, or closed by another thread
            result.add(f"{path.name} {path.readlink()}")
    return result


@pytest.mark.parametrize("times", [3, pytest.param(500, marks=pytest.mark.matrix)])
def test_nothing_is_left_open(own: Sshd, times: int) -> None:
    before = _descriptors()
    for _ in range(times):
        with SSHHost(target(own)) as ssh:
            ssh.run(["true"])
            with ssh.remote_forward(echoing(b"")) as port:
                ask(port)
    # A thread that an earlier test has left, such as a server's, may have something open for a moment.
    until(lambda: _descriptors() <= before, "no descriptor is left")
    until(lambda: not [thread for thread in threading.enumerate() if "tfprov" in thread.name], "no thread is left")
    until(lambda: not own.children(), "no connection is left")
