"""A socket to an address of one family only: `-4`, `-6`, or `AddressFamily` in ssh_config."""

import socket

from tfprov.errors import Unreachable, shown
from tfprov.hosts.ssh_config import Hop

_FAMILIES = {"inet": (socket.AF_INET, "IPv4"), "inet6": (socket.AF_INET6, "IPv6")}


def dial(hop: Hop, limit: float) -> socket.socket | None:
    """Connect to `hop` within `limit` seconds an address; None where any family will do. Raises OSError, Unreachable."""
    if hop.address_family not in _FAMILIES:
        return None
    family, name = _FAMILIES[hop.address_family]
    try:
        found = socket.getaddrinfo(hop.address, hop.port, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        what = f"no {name} address found for {shown(hop.address)}"
        raise Unreachable(hop.label, what, "correct `ansible_host`, or allow both families of addresses") from error
    failed: OSError = OSError("no address")
    for _, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        made.settimeout(limit)
        try:
            made.connect(address)
        except OSError as error:
            made.close()
            failed = error
        else:
            return made
    raise failed
