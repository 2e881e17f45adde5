"""Where the errors of paramiko, Fabric, invoke and the operating system end: each becomes one line that names the host.

HostError
├── ForwardingForbidden     sshd does not forward ports for this user
├── TimedOut                a command took longer than its limit; it may still be running
└── Unreachable
    └── ConnectionLost      what was under way may or may not have happened: look again before doing anything else
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from tfprov.errors import HostError, TfprovError, Unreachable, one_line, shown


class ForwardingForbidden(HostError):
    """The host's sshd does not forward ports (AllowTcpForwarding, PermitListen, PermitOpen)."""


class TimedOut(HostError):
    """The time limit of a command passed."""


class ConnectionLost(Unreachable):
    """The connection ended while it was in use: the outcome of what was under way is unknown."""


class Dropped(Unreachable):
    """The server closed the connection before it said anything: too many at once, as a rule, so worth another try."""


_NETWORK = {
    errno.ECONNREFUSED: ("{where} refused the connection", "start sshd there, or correct `ansible_port`"),
    errno.EHOSTUNREACH: ("there is no way to {where}", "correct `ansible_host`, or look at the network"),
    errno.ENETUNREACH: ("there is no way to {where}", "correct `ansible_host`, or look at the network"),
    errno.ETIMEDOUT: ("no answer from {where}", "is it switched on? does a firewall drop the packets?"),
}


@contextmanager
def connecting(host: str, where: str, limit: float) -> Iterator[None]:
    """Turn whatever goes wrong while a connection is made to `where`, within `limit` seconds, into Unreachable."""
    try:
        yield
    except TfprovError:
        raise
    except NoValidConnectionsError as error:  # one error for each of the addresses that a name has
        raise _network(host, where, _first(error), limit) from error
    except OSError as error:
        raise _network(host, where, error, limit) from error
    except (paramiko.SSHException, EOFError) as error:
        raise _handshake(host, where, error, limit) from error
    except Exception as error:  # paramiko also raises bare Exception, AssertionError and ValueError on bad packets
        raise Unreachable(host, f"{where} does not speak SSH as expected: {_words(error)}") from error


@contextmanager
def talking(host: str, doing: str) -> Iterator[None]:
    """Turn whatever goes wrong on an open connection during `doing` into ConnectionLost or HostError."""
    try:
        yield
    except TfprovError:
        raise
    except TimeoutError as error:
        raise TimedOut(host, f"no answer in time: {doing}") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise lost(host, doing) from error


def lost(host: str, doing: str) -> ConnectionLost:
    """Return the error for a connection that ended during `doing`."""
    return ConnectionLost(host, f"connection lost, outcome unknown: {doing}", "look at the host, and run this again")


def _network(host: str, where: str, error: OSError, limit: float) -> Unreachable:
    if isinstance(error, socket.gaierror):
        address = where.rpartition(":")[0]
        return Unreachable(host, f"no address found for {shown(address)}", "correct `ansible_host`, or look at DNS")
    if isinstance(error, TimeoutError) and error.errno is None:
        fix = "is it switched on? does a firewall drop the packets?"
        return Unreachable(host, f"no answer from {where} within {limit:g} s", fix)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return _dropped(host, where)
    what, fix = _NETWORK.get(error.errno or 0, ("", ""))
    return Unreachable(host, what.format(where=where) or f"{where}: {_words(error)}", fix)


def _handshake(host: str, where: str, error: Exception, limit: float) -> Unreachable:
    """Only the error before the one that paramiko raises tells the ways in which a greeting fails apart."""
    cause = error.__context__
    text = str(error)
    if isinstance(error, IncompatiblePeer):
        return Unreachable(host, f"{where} and tfprov do not understand each other: {_words(error)}", "update its sshd")
    if isinstance(cause, TimeoutError) or "No existing session" in text or "imed out" in text:
        return Unreachable(
            host, f"{where} took the connection and did not greet within {limit:g} s", "look at its sshd"
        )
    if isinstance(error, EOFError) or ("banner" in text and isinstance(cause, EOFError | ConnectionError)):
        return _dropped(host, where)
    if "banner" in text or "protocol version" in text:
        return Unreachable(host, f"{where} does not speak SSH: {_words(error)}", "correct `ansible_port`")
    return Unreachable(host, f"{where}: {_words(error)}")


def _dropped(host: str, where: str) -> Dropped:
    fix = "is that port sshd's? it may also be at its limit (MaxStartups): use fewer `--forks`"
    return Dropped(host, f"{where} closed the connection before it was made", fix)


def _first(error: NoValidConnectionsError) -> OSError:
    found = next(iter(error.errors.values()), error)
    return found if isinstance(found, OSError) else error


def _words(error: BaseException) -> str:
    text = (error.strerror or os.strerror(error.errno)) if isinstance(error, OSError) and error.errno else str(error)
    return one_line(text)[:200] or type(error).__name__
