"""`check --trust`: each server whose key nobody knows yet is asked about once, and recorded after a yes."""

from collections.abc import Callable, Iterable

from tfprov.engine.pools import pool
from tfprov.errors import HostError
from tfprov.hosts.machine import Machine, Remote
from tfprov.hosts.ssh_hostkey import UnknownKey
from tfprov.hosts.ssh_trust import contact, trust

Ask = Callable[[UnknownKey], bool]
"""Shows a key to a person; whether it is the server's."""


def trust_new(machines: Iterable[Machine], forks: int, ask: Ask) -> dict[str, HostError]:
    """Connect to all of `machines`, asking about every unknown key on the way; return why some cannot be reached.

    One that stands before many hosts, as a gateway, is asked about once. Every yes may lead to the next server behind it.
    """
    answers: dict[tuple[str, int, bytes], bool] = {}
    found: dict[str, HostError] = {}
    waiting = [machine for machine in machines if isinstance(machine, Remote)]
    with pool(forks) as asking:
        while waiting:
            errors = list(asking.map(lambda machine: contact(machine.ssh), waiting))
            told = dict(zip((machine.host for machine in waiting), errors, strict=True))
            again = {host for host, error in told.items() if _trusted(error, answers, ask)}
            found |= {host: error for host, error in told.items() if error is not None and host not in again}
            waiting = [machine for machine in waiting if machine.host in again]
    return found


def _trusted(error: HostError | None, answers: dict[tuple[str, int, bytes], bool], ask: Ask) -> bool:
    """Whether it is worth another try: the key that was in the way is trusted now."""
    if not isinstance(error, UnknownKey):
        return False
    server = error.hop.known_as, error.hop.port, error.data
    if server not in answers:
        answers[server] = ask(error)
        if answers[server]:
            trust(error)
    return answers[server]
