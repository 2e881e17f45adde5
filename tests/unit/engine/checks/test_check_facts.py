"""What a machine's programs print, read as facts; and the two programs that try an address, as they are."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ports import free_port
from tfprov.hosts.docker import reachability_probe
from tfprov.hosts.facts import ClockOffset, Listener, owner_of, parse_listeners, parse_system, read_clock, read_system

SS = """\
State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
LISTEN 0      128          0.0.0.0:22         0.0.0.0:*    users:(("sshd",pid=7,fd=3))
LISTEN 0      4096   127.0.0.53%lo:53         0.0.0.0:*
LISTEN 0      4096       10.0.0.11:2222       0.0.0.0:*    users:(("python3",pid=99,fd=4),("python3",pid=98,fd=4))
LISTEN 0      511                *:80               *:*
LISTEN 0      128             [::]:22            [::]:*
LISTEN 0      50   [::ffff:127.0.0.1]:8080           *:*
"""
PROC = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B00000A:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0B00000A:0016 0C00000A:D431 01 00000000:00000000 02:000A7D8C 00000000     0        0 3 4 0 20 4 30 10 -1
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000
   1: 00000000000000000000000001000000:0277 00000000000000000000000000000000:0000 0A 00000000:00000000
   2: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000
"""
WHOLE = f"""\
@kind
x86_64
@flags
flags\t\t: fpu sse4_2 avx avx2
@addresses
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.11/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever
@free
Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/vda         263174212 28000000  80000000      26% /
@memory
MemAvailable:   16384000 kB
@listeners
{SS}@gpus
/proc/driver/nvidia/gpus/0000:01:00.0
/proc/driver/nvidia/gpus/0000:02:00.0
@devices
/dev
/dev/dri
/dev/dri/card0
@gpu_tools
/usr/bin/nvidia-container-runtime-hook
"""


def test_what_the_script_prints_is_read() -> None:
    parsed = parse_system(WHOLE)
    assert (parsed.kind, parsed.gpus, parsed.gpu_tools) == ("x86_64", 2, True)
    assert parsed.flags == frozenset({"fpu", "sse4_2", "avx", "avx2"})
    assert parsed.devices == frozenset({"/dev", "/dev/dri", "/dev/dri/card0"})
    assert parsed.addresses == ("127.0.0.1", "10.0.0.11")
    assert (parsed.free, parsed.memory) == (80000000 * 1024, 16384000 * 1024)
    assert parsed.listeners is not None
    assert len(parsed.listeners) == 5


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_system(text)
    parse_system(WHOLE.replace("x86_64", text).replace("10.0.0", text))


def test_empty_sections_are_unknown_facts() -> None:
    parsed = parse_system("@kind\n@flags\n@addresses\n@free\n@memory\n@listeners\n@gpus\n@devices\n@gpu_tools\n")
    assert parsed == parse_system("")
    assert parsed.devices is None
    assert (parsed.flags, parsed.addresses, parsed.free, parsed.listeners, parsed.gpus) == (
        None,
        None,
        None,
        None,
        None,
    )


def test_the_facts_of_this_machine() -> None:
    def run(argv: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(list(argv), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        parsed = read_system(run, "/")
        assert parsed.addresses is not None
        assert "127.0.0.1" in parsed.addresses
        assert parsed.free
        assert parsed.devices is not None
        assert "/dev/null" in parsed.devices
        assert parsed.listeners is not None
        assert owner_of(parsed.listeners, "127.0.0.1", port) is not None
    clock = read_clock(run)
    assert clock is not None
    assert abs(clock.offset) <= clock.doubt + 0.1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SS,
            [
                Listener("*", 22, "sshd (pid 7)"),
                Listener("127.0.0.53", 53),
                Listener("10.0.0.11", 2222, "python3 (pid 99)"),
                Listener("*", 80),
                Listener("127.0.0.1", 8080),
            ],
        ),
        (
            PROC,
            [Listener("10.0.0.11", 2222), Listener("*", 22), Listener("*", 80), Listener("127.0.0.1", 8080)],
        ),
        ("", None),
        ("ss: command not found", None),
    ],
    ids=["ss", "proc", "nothing", "error"],
)
def test_listeners_are_parsed(text: str, expected: list[Listener] | None) -> None:
    parsed = parse_listeners(text)
    assert (None if parsed is None else list(parsed)) == expected


def test_addresses_are_also_read_from_the_kernels_table() -> None:
    table = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.0.11
        /32 host LOCAL
     |-- 10.0.0.255
        /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""
    assert parse_system(f"@addresses\n{table}").addresses == ("10.0.0.11", "127.0.0.1")


@pytest.mark.parametrize(
    ("held", "address", "takes"),
    [
        ("*", "10.0.0.11", True),
        ("10.0.0.11", "10.0.0.11", True),
        ("10.0.0.12", "10.0.0.11", False),
        ("127.0.0.1", "10.0.0.11", False),
        ("10.0.0.12", "0.0.0.0", True),
    ],
)
def test_a_port_is_taken_at_an_address_or_at_all(held: str, address: str, takes: bool) -> None:
    assert Listener(held, 2222).takes(address, 2222) is takes
    assert not Listener(held, 2222).takes(address, 2223)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1000011.000000000\n", ClockOffset(10.0, 1.0)),
        ("999989.500\n", ClockOffset(-11.5, 1.0)),
        ("1000001.%N\n", ClockOffset(0.5, 1.5)),
        ("1000001\n", ClockOffset(0.5, 1.5)),
        ("date: no such option\n", None),
    ],
    ids=["ahead", "behind", "without-parts", "whole-seconds", "unreadable"],
)
def test_a_clock_is_compared_with_the_middle_of_its_way(printed: str, expected: ClockOffset | None) -> None:
    times = iter([1000000.0, 1000002.0])
    assert read_clock(lambda _: (0, printed), lambda: next(times)) == expected


# -- the programs that run in containers ------------------------------------------------------------------------------


@contextmanager
def listening(port: int, greeting: str) -> Iterator[None]:
    argv = [sys.executable, "-c", reachability_probe.LISTEN, str(port), greeting, "600"]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


def probed(*targets: tuple[str, int, str], patience: float = 10, program: str = reachability_probe.PROBE) -> list[str]:
    argv = [sys.executable, "-c", program, json.dumps(targets), "4", str(patience), "32"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    data: list[str] = json.loads(done.stdout)
    return data


@contextmanager
def server(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """Yield a port whose connections `serve` gets."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listening_socket.accept()
            except OSError:
                return
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening_socket.getsockname()[1]
        listening_socket.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_stand_in_is_known_by_its_greeting_also_when_it_is_late() -> None:
    port = free_port()
    with listening(port, "ps/0 here"):
        assert probed(("127.0.0.1", port, "ps/0 here"), ("127.0.0.1", port, "ps/1 here")) == ["ok", "other"]


def test_where_nobody_listens_it_is_refused() -> None:
    port = free_port()
    assert probed(("127.0.0.1", port, ""), ("127.0.0.1", port, "word"), patience=0) == ["refused", "refused"]


def test_a_name_without_an_address_is_reported() -> None:
    assert probed(("no-such-host.invalid", 2222, "")) == ["no address"]


def test_a_task_waits_to_be_spoken_to_and_a_proxy_without_one_hangs_up() -> None:
    held: list[socket.socket] = []
    with server(held.append) as quiet, server(lambda it: it.close()) as hangs_up, server(_says_hello) as speaks:
        assert probed(("127.0.0.1", quiet, ""), ("127.0.0.1", speaks, "")) == ["ok", "ok"]
        patient = reachability_probe.PROBE.replace("else 0.5", "else 10")  # it hangs up when it gets round to it
        assert patient != reachability_probe.PROBE
        assert probed(("127.0.0.1", hangs_up, ""), program=patient) == ["closed"]
        assert probed(("127.0.0.1", hangs_up, "word"), patience=0) == ["closed"]
    for connection in held:
        connection.close()


def _says_hello(connection: socket.socket) -> None:
    connection.sendall(b"PRI")
    connection.close()


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (reachability_probe.LISTEN, ["0", "", "0.2"]),
        (reachability_probe.PROBE, ['[["127.0.0.1", 1, ""]]', "4", "10", "32"]),
    ],
)
def test_a_program_imports_nothing_from_the_working_directory(
    program: str, arguments: list[str], tmp_path: Path
) -> None:
    for name in ("json", "socket", "threading"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    argv = [sys.executable, *reachability_probe.isolated(program)[1:], *arguments]
    assert subprocess.run(argv, cwd=tmp_path, check=False, timeout=300).returncode == 0


def test_a_stand_in_ends_by_itself() -> None:
    argv = [sys.executable, "-c", reachability_probe.LISTEN, "0", "", "0.2"]
    assert subprocess.run(argv, check=False, timeout=300).returncode == 0


def test_the_programs_are_for_any_python_3() -> None:
    for program in (reachability_probe.LISTEN, reachability_probe.PROBE):
        assert not re.search(r'\bf"|:=', program)
        compile(program, "program", "exec")
