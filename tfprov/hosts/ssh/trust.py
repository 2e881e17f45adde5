"""First contact on a person's word: which key a server shows, and its line in known_hosts after a yes.

A key that has changed is never asked about. After a yes the connection is made anew, and has to show the same key.
"""

from tfprov.errors import HostError
from tfprov.hosts.ssh.host import SSH
from tfprov.hosts.ssh.host_keys import UnknownKey
from tfprov.hosts.ssh.known_hosts import Verdict, record


def contact(ssh: SSH) -> HostError | None:
    """Try to connect, and return what is in the way: UnknownKey for a server that no file knows, be it a gateway."""
    try:
        ssh.open()
    except HostError as error:
        return error
    return None


def trust(unknown: UnknownKey) -> None:
    """Record the key where `ssh` would. HostError when that cannot be, or another key came in meanwhile."""
    hop = unknown.hop
    try:
        verdict, _ = record(hop.known_hosts[0], hop.known_as, hop.port, unknown.kind, unknown.data)
    except OSError as error:
        raise HostError(hop.label, f"its key could not be recorded: {error.strerror}: {error.filename}") from error
    if verdict is not Verdict.KNOWN:
        raise HostError(
            hop.label, "another key of it was recorded meanwhile", "look at known_hosts, and run this again"
        )
