"""The command line of the user's own OpenSSH client for a host, with the options of the inventory."""

from collections.abc import Iterator, Sequence

from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.shell import join


def openssh_command(target: SSHTarget, command: Sequence[str] = (), *, tty: bool = True) -> list[str]:
    """Return `ssh` with its arguments, for a login or for `command`; ssh(1) reads ~/.ssh/config and the agent itself.

    A password of the inventory is not passed on: OpenSSH asks for one.
    """
    words = ["ssh", *_options(target)]
    if command and tty:
        words.append("-t")
    return [*words, "--", target.address, *([join(command)] if command else [])]


def _options(target: SSHTarget) -> Iterator[str]:
    if target.ssh_config is not None and target.ssh_config.exists():
        yield from ("-F", str(target.ssh_config))
    if target.port is not None:
        yield from ("-p", str(target.port))
    if target.user is not None:
        yield from ("-l", target.user)
    for file in target.key_files:
        yield from ("-i", str(file))
    if target.proxy_jump is not None:
        yield from ("-J", target.proxy_jump)
    yield from (word for setting in _settings(target) for word in ("-o", setting))


def _settings(target: SSHTarget) -> Iterator[str]:
    yield f"ConnectTimeout={max(1, round(target.connect_timeout))}"
    # As tfprov itself: a key that is not known is refused, unless it is to be recorded.
    yield f"StrictHostKeyChecking={'accept-new' if target.accept_new else 'yes'}"
    if target.known_hosts:
        yield f"UserKnownHostsFile={' '.join(_quoted(str(file)) for file in target.known_hosts)}"
    if target.proxy_command is not None:
        yield f"ProxyCommand={target.proxy_command}"
    if target.identities_only is not None:
        yield f"IdentitiesOnly={'yes' if target.identities_only else 'no'}"
    if target.authentications:
        yield f"PreferredAuthentications={','.join(target.authentications)}"
    if target.host_key_algorithms is not None:
        yield f"HostKeyAlgorithms={target.host_key_algorithms}"
    if target.address_family is not None:
        yield f"AddressFamily={target.address_family}"


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
