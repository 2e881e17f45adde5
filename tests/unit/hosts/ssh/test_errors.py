"""Errors of libraries become one-line errors that name the host."""

import errno
import inspect
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType

import docker
import invoke
import paramiko
import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from paramiko import ssh_exception
from paramiko.ssh_exception import IncompatiblePeer

from tfprov.errors import HostError, TfprovError, Unreachable
from tfprov.hosts.docker.engine_errors import engine_errors, explain
from tfprov.hosts.ssh.errors import ConnectionDropped, ConnectionLost, TimedOut, channel_errors, connect_errors
from tfprov.hosts.ssh.remote_forward import is_loopback

MODULES = (ssh_exception, invoke.exceptions, docker.errors, requests.exceptions, urllib3.exceptions)


def raise_within(error: BaseException, boundary: AbstractContextManager[None]) -> None:
    with boundary:
        raise error


def map_error(error: BaseException, boundary: AbstractContextManager[None]) -> TfprovError:
    """Return the error that the boundary raises for `error`."""
    try:
        raise_within(error, boundary)
    except TfprovError as mapped:
        message = str(mapped)
        assert message.startswith("h1: "), repr(error)
        assert "\n" not in message, repr(error)
        return mapped
    except BaseException as other:
        raise AssertionError(f"{error!r} was raised as {other!r}") from other
    raise AssertionError(f"{error!r} was swallowed")


def make_error(kind: type[Exception]) -> Exception:
    """Return an instance of `kind`, bypassing a constructor with required arguments."""
    try:
        return kind("words\nand more")
    except (TypeError, AttributeError):
        error = kind.__new__(kind)
        Exception.__init__(error, "words")
        names = (
            "allowed_types",
            "hostname",
            "key",
            "expected_key",
            "command",
            "error",
            "errors",
            "types",
            "msg",
            "explanation",
        )
        for name in names:
            if not hasattr(error, name):
                error.__dict__[name] = {} if name == "errors" else ""
        error.__class__ = type(kind.__name__, (kind,), {"__str__": lambda _: "words"})
        return error


def exceptions_of(module: ModuleType) -> Iterator[type[Exception]]:
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if issubclass(kind, Exception) and not issubclass(kind, Warning) and kind.__module__ == module.__name__:
            yield kind


PARAMIKO_ERRORS = sorted(exceptions_of(ssh_exception), key=str)
PROXY_ERRORS = {urllib3.exceptions.ProxySchemeUnsupported, urllib3.exceptions.ProxySchemeUnknown}
"""tfprov does not connect to engines through HTTP proxies."""
ENGINE_ERRORS = sorted(
    (kind for module in MODULES[2:] for kind in exceptions_of(module) if kind not in PROXY_ERRORS), key=str
)
PYTHON_ERRORS = [
    EOFError,
    OSError,
    TimeoutError,
    ConnectionResetError,
    BrokenPipeError,
    socket.gaierror,
    PermissionError,
]


def test_every_paramiko_error_is_mapped() -> None:
    assert len(PARAMIKO_ERRORS) > 10
    for kind in (*PARAMIKO_ERRORS, *PYTHON_ERRORS):
        assert isinstance(map_error(make_error(kind), connect_errors("h1", "10.0.0.1:22", 1)), Unreachable), kind
        assert isinstance(map_error(make_error(kind), channel_errors("h1", "`true`")), HostError), kind


def test_every_error_of_the_engine_is_mapped() -> None:
    assert len(ENGINE_ERRORS) > 50
    for kind in (*ENGINE_ERRORS, *PYTHON_ERRORS, struct.error):
        map_error(make_error(kind), engine_errors("h1"))


@pytest.mark.parametrize("boundary", [connect_errors("h1", "x:22", 1), channel_errors("h1", "x"), engine_errors("h1")])
def test_errors_of_tfprov_pass_through(boundary: AbstractContextManager[None]) -> None:
    own = HostError("h2", "its own")
    with pytest.raises(HostError) as caught, boundary:
        raise own
    assert caught.value is own


def test_other_exceptions_pass_through() -> None:
    for boundary in (channel_errors("h1", "x"), engine_errors("h1")):
        with pytest.raises(ZeroDivisionError), boundary:
            raise ZeroDivisionError


def banner(cause: Exception) -> Exception:
    """Return paramiko's error for an unreadable banner: the reason is only in its context."""
    error = paramiko.SSHException("Error reading SSH protocol banner")
    error.__context__ = cause
    return error


CONNECT_ERRORS: list[tuple[Exception, type, str]] = [
    (OSError(errno.ECONNREFUSED, ""), Unreachable, "x:22 refused the connection"),
    (
        ssh_exception.NoValidConnectionsError({("x", 22): OSError(errno.EHOSTUNREACH, "")}),
        Unreachable,
        "no route to x:22",
    ),
    (OSError(errno.ENETUNREACH, ""), Unreachable, "no route to x:22"),
    (OSError(errno.ETIMEDOUT, ""), Unreachable, "no answer from x:22"),
    (TimeoutError("timed out"), Unreachable, "no answer from x:22 within 3 s"),
    (socket.gaierror(-2, "Name or service not known"), Unreachable, "no address for x;"),
    (ConnectionResetError(errno.ECONNRESET, ""), ConnectionDropped, "closed the connection before"),
    (EOFError(), ConnectionDropped, "closed the connection before"),
    (banner(EOFError()), ConnectionDropped, "closed the connection before"),
    (banner(ConnectionResetError()), ConnectionDropped, "closed the connection before"),
    (banner(TimeoutError()), Unreachable, "sent no SSH banner within 3 s"),
    (banner(UnicodeDecodeError("utf-8", b"", 0, 1, "bad")), Unreachable, "does not speak SSH"),
    (paramiko.SSHException("No existing session"), Unreachable, "sent no SSH banner within 3 s"),
    (paramiko.SSHException('Indecipherable protocol version "HTTP"'), Unreachable, "does not speak SSH"),
    (IncompatiblePeer("no acceptable ciphers"), Unreachable, "no acceptable ciphers"),
    (AssertionError(), Unreachable, "does not speak SSH as expected"),
]


def test_failed_connections_are_explained() -> None:
    for error, kind, text in CONNECT_ERRORS:
        mapped = map_error(error, connect_errors("h1", "x:22", 3))
        assert (type(mapped), mapped.exit_code) == (kind, 4), repr(error)
        assert text in str(mapped), repr(error)


def test_a_lost_connection_and_a_timeout_are_distinct_errors() -> None:
    assert type(map_error(EOFError(), channel_errors("h1", "`ls`"))) is ConnectionLost
    assert type(map_error(TimeoutError(), channel_errors("h1", "`ls`"))) is TimedOut


NETWORK = "driver failed programming external connectivity on endpoint x (1f): "
RUNC = "OCI runtime create failed: runc create failed: unable to start container process: "
DAEMON = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
ENGINE_MESSAGES = {
    NETWORK + "Bind for 10.0.0.1:2222 failed: port is already allocated": "port 2222 is taken",
    NETWORK + "Error starting userland proxy: listen tcp4 10.0.0.1:2222: bind: address already in use": "port 2222 is",
    NETWORK + "failed to bind host port for 10.0.0.1:2222:172.17.0.2:22/tcp: address already in use": "port 2222 is",
    NETWORK + "listen tcp4 10.9.9.9:2222: bind: cannot assign requested address": "it has no address 10.9.9.9",
    "write /var/lib/docker/tmp/x: no space left on device": "no space left on its disk",
    "No such image: a/b:1": "the image a/b:1 is not there",
    "pull access denied for a/b, repository does not exist or may require x": "the image a/b is in no registry",
    "manifest for a/b:1 not found: manifest unknown: manifest unknown": "the image a/b:1 is in no registry",
    'Conflict. The container name "/x" is already in use by container "0123456789abcdef".': (
        "a container called x is there already (0123456789ab)"
    ),
    f"Container {'0123456789abcdef' * 4} is not running": "the container 0123456789ab does not run",
    'could not select device driver "" with capabilities: [[gpu]]': "its engine cannot provide GPUs",
    'error gathering device information while adding custom device "/dev/kfd": no such file or directory': (
        "it has no device /dev/kfd"
    ),
    "runc create failed: error during container init: error setting rlimits for ready process: "
    "error setting rlimit type 8: operation not permitted: unknown": "its engine may not set such a limit",
    RUNC + 'exec: "nope": executable file not found in $PATH: unknown': "the image has no program nope",
    RUNC + 'exec: "/nope": stat /nope: no such file or directory: unknown': "the image has no program /nope",
    "bash: line 1: docker: command not found": "Docker is not installed",
    "sh: 1: docker: not found": "Docker is not installed",
    "sudo: docker: command not found": "Docker is not installed",
    "noise of the shell sudo: a password is required": "sudo: a password is required",
    DAEMON + "dial unix /var/run/docker.sock: connect: permission denied": "trainer may not use its Docker engine",
    "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?": "its Docker engine does not run",
    "docker: 'system dial-stdio' is not a docker command.": "its Docker is too old",
    "Error response from daemon: something\nelse": "something else",
}


def test_engine_errors_are_explained() -> None:
    explanations = {text: explain(text, "trainer") for text in ENGINE_MESSAGES}
    assert {
        text: problem for text, (problem, _) in explanations.items() if not problem.startswith(ENGINE_MESSAGES[text])
    } == {}
    assert [text for text, (_, fix) in explanations.items() if not fix] == [
        "Error response from daemon: something\nelse"
    ]
    assert [text for text, (problem, fix) in explanations.items() if "{" in problem + fix] == []


@given(st.text())
def test_any_engine_error_becomes_one_line(text: str) -> None:
    problem, fix = explain(text)
    assert (problem + fix).isprintable()


OWN = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost")
FOREIGN = ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "example.org")


def test_only_the_host_itself_uses_a_forwarded_port() -> None:
    assert [origin for origin in (*OWN, *FOREIGN) if is_loopback(origin)] == list(OWN)
