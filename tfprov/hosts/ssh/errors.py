"""Map errors of paramiko, Fabric, invoke and the operating system to one-line errors that name the host.

HostError
├── ForwardingForbidden     sshd does not forward ports for this user
├── TimedOut                a command exceeded its time limit; it may still be running
└── Unreachable
    ├── ConnectionDropped   the server closed the connection before it sent anything
    └── ConnectionLost      the outcome of the interrupted action is unknown: observe the host before acting again
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from tfprov.errors import HostError, TfprovError, Unreachable, one_line, printable


class ForwardingForbidden(HostError):
    """The host's sshd does not forward ports (AllowTcpForwarding, PermitListen, PermitOpen)."""


class TimedOut(HostError):
    """A command exceeded its time limit."""


class ConnectionLost(Unreachable):
    """The connection ended while in use: the outcome of the interrupted action is unknown."""


class ConnectionDropped(Unreachable):
    """The server closed the connection before it sent anything: usually a limit on new connections, so worth a retry."""


_ERRNO_MESSAGES = {
    errno.ECONNREFUSED: ("{where} refused the connection", "start sshd there, or correct `ansible_port`"),
    errno.EHOSTUNREACH: ("no route to {where}", "correct `ansible_host`, or look at the network"),
    errno.ENETUNREACH: ("no route to {where}", "correct `ansible_host`, or look at the network"),
    errno.ETIMEDOUT: ("no answer from {where}", "is it switched on? does a firewall drop the packets?"),
}


@contextmanager
def connect_errors(host: str, where: str, limit: float) -> Iterator[None]:
    """Turn every error of connecting to `where` within `limit` seconds into Unreachable."""
    try:
        yield
    except TfprovError:
        raise
    except NoValidConnectionsError as error:  # one error per address of the name
        raise _network_error(host, where, _first_error(error), limit) from error
    except OSError as error:
        raise _network_error(host, where, error, limit) from error
    except (paramiko.SSHException, EOFError) as error:
        raise _handshake_error(host, where, error, limit) from error
    except Exception as error:  # paramiko also raises bare Exception, AssertionError and ValueError on bad packets
        raise Unreachable(host, f"{where} does not speak SSH as expected: {_reason(error)}") from error


@contextmanager
def channel_errors(host: str, action: str) -> Iterator[None]:
    """Turn every error of an open connection during `action` into ConnectionLost or HostError."""
    try:
        yield
    except TfprovError:
        raise
    except TimeoutError as error:
        raise TimedOut(host, f"no answer in time: {action}") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise connection_lost(host, action) from error


def connection_lost(host: str, action: str) -> ConnectionLost:
    """Return the error for a connection that ended during `action`."""
    return ConnectionLost(host, f"connection lost, outcome unknown: {action}", "look at the host, and run this again")


def _network_error(host: str, where: str, error: OSError, limit: float) -> Unreachable:
    if isinstance(error, socket.gaierror):
        address = where.rpartition(":")[0]
        return Unreachable(host, f"no address for {printable(address)}", "correct `ansible_host`, or look at DNS")
    if isinstance(error, TimeoutError) and error.errno is None:
        fix = "is it switched on? does a firewall drop the packets?"
        return Unreachable(host, f"no answer from {where} within {limit:g} s", fix)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return _dropped_error(host, where)
    what, fix = _ERRNO_MESSAGES.get(error.errno or 0, ("", ""))
    return Unreachable(host, what.format(where=where) or f"{where}: {_reason(error)}", fix)


def _handshake_error(host: str, where: str, error: Exception, limit: float) -> Unreachable:
    """Return the error for a failed SSH handshake; only the context of paramiko's error tells the causes apart."""
    cause = error.__context__
    text = str(error)
    if isinstance(error, IncompatiblePeer):
        return Unreachable(host, f"{where} and tfprov have no algorithm in common: {_reason(error)}", "update its sshd")
    if isinstance(cause, TimeoutError) or "No existing session" in text or "imed out" in text:
        return Unreachable(
            host, f"{where} accepted the connection but sent no SSH banner within {limit:g} s", "look at its sshd"
        )
    if isinstance(error, EOFError) or ("banner" in text and isinstance(cause, EOFError | ConnectionError)):
        return _dropped_error(host, where)
    if "banner" in text or "protocol version" in text:
        return Unreachable(host, f"{where} does not speak SSH: {_reason(error)}", "correct `ansible_port`")
    return Unreachable(host, f"{where}: {_reason(error)}")


def _dropped_error(host: str, where: str) -> ConnectionDropped:
    fix = "is that port sshd's? it may also be at its limit (MaxStartups): use fewer `--forks`"
    return ConnectionDropped(host, f"{where} closed the connection before it was made", fix)


def _first_error(error: NoValidConnectionsError) -> OSError:
    first = next(iter(error.errors.values()), error)
    return first if isinstance(first, OSError) else error


def _reason(error: BaseException) -> str:
    text = (error.strerror or os.strerror(error.errno)) if isinstance(error, OSError) and error.errno else str(error)
    return one_line(text)[:200] or type(error).__name__


@contextmanager
def config_errors(host: str, path: Path | None) -> Iterator[None]:
    """Turn errors in the configuration file of ssh at `path`, or in one that it includes, into HostError."""
    try:
        yield
    except PermissionError as error:
        raise HostError(host, f"{error.filename or path}: {error.strerror}", "give this user access to it") from error
    except (paramiko.SSHException, OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(host, f"{path}: {one_line(str(error))}", "correct the file") from error
