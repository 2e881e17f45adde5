"""Ask the user about an unknown host key, and add it to known_hosts.

A changed key is never offered for confirmation. After confirmation the connection is opened again and must show that key.
"""

from tfprov.errors import HostError
from tfprov.hosts.ssh.host import SSH
from tfprov.hosts.ssh.host_keys import UnknownHostKey
from tfprov.hosts.ssh.known_hosts import KeyStatus, add_key


def connect_error(ssh: SSH) -> HostError | None:
    """Connect and return the error, or None: UnknownHostKey if the host or a gateway is in no known_hosts file."""
    try:
        ssh.open()
    except HostError as error:
        return error
    return None


def trust_key(unknown: UnknownHostKey) -> None:
    """Add the key to the file that `ssh` would use. Raises HostError if that fails or another key was added meanwhile."""
    hop = unknown.hop
    try:
        status, _ = add_key(hop.known_hosts[0], hop.host_key_alias, hop.port, unknown.key_type, unknown.data)
    except OSError as error:
        raise HostError(hop.label, f"its key could not be recorded: {error.strerror}: {error.filename}") from error
    if status is not KeyStatus.KNOWN:
        raise HostError(
            hop.label, "another run recorded a different key for it", "check known_hosts, then run this again"
        )
