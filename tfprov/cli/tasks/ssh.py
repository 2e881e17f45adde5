"""The verb `ssh`: a login on a host of the inventory."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from tfprov.cli.options import inventory_of, inventory_options
from tfprov.cli.shells import values
from tfprov.errors import Usage, printable


@click.command("ssh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@inventory_options
@click.option("--builtin", is_flag=True, help="Use tfprov's own SSH client, also where OpenSSH's is installed.")
@click.argument("host", shell_complete=values.hosts)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh_command(host: str, command: Sequence[str], builtin: bool, **options: Any) -> int:
    """Opens OpenSSH's `ssh` with the inventory's address, user, port, keys and gateways, or tfprov's own client without it.

    With a command, runs that; its exit code is tfprov's. For example `tfprov ssh node1 -- nvidia-smi`.
    """
    if host.startswith("-"):  # unknown options are passed on, as they may be the command's
        raise click.NoSuchOption(host, ctx=click.get_current_context())
    from tfprov.engine.connect import ssh_target  # noqa: PLC0415  `--help` needs none of it
    from tfprov.hosts.ssh.host import SSHHost  # noqa: PLC0415
    from tfprov.hosts.ssh.openssh import openssh_command  # noqa: PLC0415
    from tfprov.hosts.ssh.shell_session import run_session  # noqa: PLC0415
    from tfprov.hosts.terminal import ExecMode  # noqa: PLC0415
    from tfprov.settings.connection import resolve_connection  # noqa: PLC0415

    inventory = inventory_of(options)
    if host not in inventory.hosts:
        known = ", ".join(list(inventory.hosts)[:5])
        raise Usage(f"no host `{printable(host)}` in the inventory", f"it has {known or 'none'}")
    settings = resolve_connection(inventory, host)
    if settings.local:
        raise Usage(f"{host} is this machine", "there is nothing to log in to")
    argv = tuple(command[1:] if command[:1] == ("--",) else command)
    target = ssh_target(settings, accept_new=bool(options["accept_new"]))
    has_terminal = os.isatty(0) and os.isatty(1)
    program = shutil.which("ssh")
    if program is not None and not builtin:
        sys.stdout.flush()
        os.execv(program, openssh_command(target, argv, tty=has_terminal))  # noqa: S606  no shell
    with SSHHost(target) as ssh:
        return run_session(ssh, argv, ExecMode(stdin=True, tty=has_terminal))
