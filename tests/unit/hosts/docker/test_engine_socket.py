"""Which unix socket `docker` on a host would use: the question is run by a real shell, on this machine."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine_api.host_dial import DOCKER, SCRIPT, HostDial, engine_socket, read_path
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.errors import TimedOut
from tfprov.hosts.ssh.host import SSHHost

DEFAULT = "/var/run/docker.sock"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory, with a `docker` that fails if it is started."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text("#!/bin/sh\necho started; exit 1\n")
    docker.chmod(0o755)
    (tmp_path / ".docker").mkdir()
    return tmp_path


def _path(home: Path, variables: Mapping[str, str] | None = None) -> str | None:
    env = {"HOME": str(home), "PATH": f"{home / 'bin'}:/usr/bin:/bin", **(variables or {})}
    shell = subprocess.run(["/bin/sh", "-c", SCRIPT], env=env, capture_output=True, check=False)
    assert shell.stderr == b""
    return read_path(shell.stdout.decode(errors="replace"))


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        pytest.param({}, DEFAULT, id="nothing set"),
        pytest.param({"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}, "/run/user/1000/docker.sock", id="rootless"),
        pytest.param({"DOCKER_HOST": "unix:///run/a b.sock"}, "/run/a b.sock", id="a space"),
        pytest.param({"DOCKER_HOST": "tcp://127.0.0.1:2375"}, None, id="TCP"),
        pytest.param({"DOCKER_HOST": "ssh://another"}, None, id="SSH"),
        pytest.param({"DOCKER_HOST": "unix://docker.sock"}, None, id="a relative path"),
        pytest.param({"DOCKER_HOST": "unix:///run/a\nsocket /run/b"}, None, id="two lines"),
        pytest.param({"DOCKER_CONTEXT": "another"}, None, id="a context"),
        pytest.param(
            {"DOCKER_HOST": "unix:///run/d.sock", "DOCKER_CONTEXT": "another"}, None, id="a host and a context"
        ),
        pytest.param({"PATH": "/nowhere", "DOCKER_HOST": "unix:///nowhere/d.sock"}, None, id="no docker and no socket"),
    ],
)
def test_variables_decide_as_they_do_for_docker(home: Path, variables: Mapping[str, str], path: str | None) -> None:
    assert _path(home, variables) == path


def test_an_engine_needs_no_docker_command(home: Path) -> None:
    path = home / "d.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert _path(home, {"PATH": "/nowhere", "DOCKER_HOST": f"unix://{path}"}) == str(path)


def test_without_a_docker_command_a_socket_that_is_locked_is_named() -> None:
    user = 65534 if os.geteuid() == 0 else None  # root may connect to any
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        Path(folder).chmod(0o755)
        path = Path(folder) / "d.sock"
        listening.bind(str(path))
        env = {"PATH": "/nowhere", "HOME": "/nowhere", "DOCKER_HOST": f"unix://{path}"}
        for mode, word in ((0o666, "socket"), (0o000, "locked")):
            path.chmod(mode)
            output = subprocess.check_output(["/bin/sh", "-c", SCRIPT], env=env, user=user)
            assert output.decode() == f"{word} {path}\n"


def test_a_context_in_the_configuration_is_left_to_docker(home: Path) -> None:
    config = home / ".docker" / "config.json"
    config.write_text(json.dumps({"auths": {"registry.example": {"auth": "eA=="}}}))
    assert _path(home) == DEFAULT
    config.write_text(json.dumps({"currentContext": "rootless"}))
    assert _path(home) is None
    assert _path(home, {"DOCKER_HOST": "unix:///run/d.sock"}) == "/run/d.sock", "the variable overrides it"
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    assert _path(home, {"DOCKER_CONFIG": str(elsewhere)}) == DEFAULT


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"socket /run/d.sock",
        b"Welcome!\nsocket /run/d.sock\n",
        b"socket \n",
        b"socket /run/\xff.sock\n",
        b"socket /a\x00b\n",
    ],
)
def test_other_output_of_a_login_shell_is_no_path(output: bytes) -> None:
    assert read_path(output.decode(errors="replace")) is None


class Printing:
    """An account on which the script prints `output`."""

    host, user = "h1", "ml"

    def __init__(self, output: bytes) -> None:
        self._pieces = [output, b""]

    def stream(self, _argv: Sequence[str]) -> "Printing":
        return self

    def __enter__(self) -> "Printing":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shutdown_write(self) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def recv(self, _size: int) -> bytes:
        return self._pieces.pop(0)


def test_who_may_not_connect_where_there_is_no_docker_command_is_told_so() -> None:
    assert engine_socket(cast(SSHHost, Printing(b"socket /run/d.sock\n"))) == "/run/d.sock"
    with pytest.raises(HostError, match=r"^h1: ml may not use its Docker engine; add the user to the group `docker`"):
        engine_socket(cast(SSHHost, Printing(b"locked /run/d.sock\n")))


class DotsForever(Printing):
    """An account whose start-up file prints a dot a second, by a clock of its own."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.seconds, self.limit = 0.0, 0.0

    def settimeout(self, seconds: float) -> None:
        self.limit = seconds

    def recv(self, _size: int) -> bytes:
        self.seconds += min(1.0, self.limit)
        if self.limit < 1.0:
            raise TimedOut("h1", "no answer in time")
        return b"."


def test_an_account_that_prints_without_end_is_given_up_in_time() -> None:
    account = DotsForever()
    assert engine_socket(cast(SSHHost, account), lambda: account.seconds) is None
    assert account.seconds < 7


class Silent:
    """A host that nothing reaches; `tries` counts the connections that were tried."""

    target = SSHTarget("h1", "10.0.0.1")

    def __init__(self) -> None:
        self.tries = 0

    def stream(self, _argv: Sequence[str], **_: object) -> None:
        self.tries += 1
        raise Unreachable("h1", "no answer from 10.0.0.1 within 10 s")


def test_a_host_that_cannot_be_reached_is_tried_once() -> None:
    host = Silent()
    with pytest.raises(Unreachable, match="no answer"):
        HostDial(cast(SSHHost, host), DOCKER)()
    assert host.tries == 1
