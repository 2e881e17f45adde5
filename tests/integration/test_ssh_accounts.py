"""Accounts that log in but do not run commands as sent: every command that connects reports their kind."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.ssh_targets import target
from tests.support.sshd import PATIENCE, Sshd, program, sshd
from tests.support.waiting import until
from tfprov.engine.lock.holder import LockHolder
from tfprov.engine.lock.host_lock import HostLock, LockPaths
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.collect_facts import survey
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.link_rate import measure_link
from tfprov.hosts.machine import SSHMachine
from tfprov.hosts.ssh.host import SSHHost

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")


@dataclass(frozen=True)
class Account:
    """What a login does: `shell` stands for the login shell, as a forced command; `startup` for ~/.bashrc."""

    what: str
    fix: str
    shell: str = ""
    startup: str = ""
    program: str = "sh"
    """Without it on this machine, the row is left out."""


BASH = 'exec bash -c \\"$SSH_ORIGINAL_COMMAND\\"'
SOURCING = '. ~/startup; eval \\"$SSH_ORIGINAL_COMMAND\\"'
SHELL = "chsh -s /bin/bash"

ACCOUNTS = {
    "nologin": Account(
        "the account {user} has no login shell (`This account is currently not available`)", SHELL,
        shell="/usr/sbin/nologin", program="/usr/sbin/nologin",
    ),
    "false": Account(
        "the login shell of {user} ends with exit code 1 before it runs a command, and prints nothing",
        "either the account has no shell (/bin/false): `chsh -s /bin/bash", shell="/bin/false",
    ),
    "a start-up file that exits": Account(
        "the login shell of {user} ends with exit code 0 before it runs a command, and prints nothing",
        "either a start-up file exits, or starts another shell: take `exit` or `exec` out of ~/.bashrc",
        shell=SOURCING, startup="exit 0",
    ),
    "a start-up file that starts another shell": Account(
        "the login shell of {user} ends with exit code 0 before it runs a command, and prints nothing",
        "either a start-up file exits, or starts another shell",
        shell=SOURCING, startup="exec sh",
    ),
    "a start-up file that prints": Account(
        "a start-up file of {user}'s login shell prints `Welcome! Today: 3 users` before every command",
        "let it print only in a terminal: `case $- in *i*) ;; *) return ;; esac` as first line of ~/.bashrc",
        shell=SOURCING, startup="echo Welcome!; echo 'Today: 3 users'",
    ),
    "a start-up file that prints and exits": Account(
        "the account {user} does not run the command it is sent: it prints `Closed today` and ends with exit code 3",
        "look at its ~/.bashrc", shell=SOURCING, startup="echo Closed today; exit 3",
    ),
    "a start-up file without sh in its PATH": Account(
        "{user} has no `sh` in its PATH", "correct PATH in the start-up files", shell=SOURCING,
        startup="PATH=/nowhere",
    ),
    "rbash": Account(
        "the login shell of {user} is restricted, like rbash (", SHELL, program="rbash",
        shell='exec rbash -c \\"$SSH_ORIGINAL_COMMAND\\"',
    ),
    "git-shell": Account(
        "the login shell of {user} is git-shell, which runs only Git's commands", SHELL, program="git-shell",
        shell='exec git-shell -c \\"$SSH_ORIGINAL_COMMAND\\"',
    ),
    "files only": Account(
        "its sshd allows {user} only to copy files (`This service allows sftp connections only`)",
        "remove `ForceCommand internal-sftp`", shell="internal-sftp",
    ),
    "a forced command": Account(
        "the account {user} does not run the command it is sent: it prints `backup of ", "`command=` in authorized",
        shell='echo \\"backup of $SSH_ORIGINAL_COMMAND\\"',
    ),
    "a shell that prints for ever": Account(
        "the login shell of {user} prints without end before every command", "look at its start-up files",
        shell="exec yes",
    ),
    "a start-up file that complains for ever": Account(
        "the login shell of {user} prints without end before every command", "look at its start-up files",
        shell=SOURCING, startup="yes >&2",
    ),
    "an expired password": Account(
        "the password of {user} has expired (`Your password has expired`)", "chage -M -1",
        shell="echo 'Your password has expired.' >&2; exit 1",
    ),
}  # fmt: skip
"""`what` says what is behind each; nobody has to read the words of a Docker client for it."""

FINE = {
    "a plain shell": Account("", "", shell=BASH),
    "a start-up file that complains": Account("", "", shell=SOURCING, startup="echo 'no locale' >&2; false"),
}
"""Logins that run what they are sent."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("accounts")) as running:
        yield running


def give(server: Sshd, account: Account) -> None:
    """Let the next login be into `account`."""
    (server.directory / "startup").write_text(account.startup)
    forced = f'command="{account.shell}" ' if account.shell else ""
    (server.directory / "authorized_keys").write_text(f"{forced}{server.public(server.user_key)}\n")


def test_every_account_without_commands_is_explained_by_all_that_connects(server: Sshd) -> None:
    wrong = {}
    for name, account in ACCOUNTS.items():
        if shutil.which(account.program) is None:
            continue
        give(server, account)
        with closing(SSHHost(target(server))) as ssh:
            output = [_told(do, ssh, server) for do in (_check, _engine, _lock)]
            what = f"h1: {account.what.format(user=ssh.user)}"
        if not all(it.startswith(what) and account.fix in it for it in output):
            wrong[name] = output
    assert wrong == {}


INVENTORY = """
all:
  vars:
    ansible_host: 127.0.0.1
    ansible_port: {port}
    ansible_ssh_private_key_file: {key}
    ansible_ssh_common_args: -o UserKnownHostsFile={known_hosts}
    tfprov: {{cluster: accounts, image: {{name: "example/train:1"}}, command: [python, /app/x.py], address: 10.9.9.9}}
  children:
    ps: {{hosts: {{h1: }}}}
    worker: {{hosts: {{h1: {{tfprov: {{port: 2300}}}}}}}}
"""


def test_commands_report_the_kind_of_account_and_end_with_4(server: Sshd, tmp_path: Path) -> None:
    state = {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
    tfprov = CommandLine(tmp_path, {**os.environ, **state})
    tfprov.inventory.write_text(INVENTORY.format(port=server.port, key=server.user_key, known_hosts=server.known_hosts))
    give(server, ACCOUNTS["a start-up file that prints"])
    output = {verb: tfprov(verb, code=4) for verb in ("check", "up", "status", "down")}
    words = "login shell prints `Welcome! Today: 3 users` before every command; let it print only in a terminal"
    assert [verb for verb, printed in output.items() if words not in printed] == []


def test_a_link_is_measured_through_accounts_that_run_commands_and_no_others_hang_or_harm(server: Sshd) -> None:
    """Programs in place of the one that discards: none, one that ends, one that prints all of it, a shell."""
    with SSHHost(target(server)) as ssh:
        give(server, FINE["a plain shell"])
        # What else the machine does slows down a measurement of 0.3 s: the program may not even have started by then.
        until(lambda: _measured(ssh) > 2e6, "the rate is that of a loopback")
    for shell in ("/bin/false", "exit 0", "head -c 100000 >/dev/null", "cat", "sh", "bash -i 2>/dev/null"):
        give(server, Account("", "", shell=f"cd {server.directory}; {shell}"))
        before = sorted(server.directory.iterdir())
        begin = time.monotonic()
        with SSHHost(target(server)) as ssh:
            if shell in {"cat", "sh", "bash -i 2>/dev/null"}:
                measure_link(ssh)
            else:  # on a busy machine it may end only after the measurement
                until(lambda: measure_link(ssh) is None, f"no rate through {shell}")
        assert time.monotonic() - begin < PATIENCE, shell
        assert sorted(server.directory.iterdir()) == before, shell


def _measured(ssh: SSHHost) -> float:
    rate = measure_link(ssh)
    assert rate is not None, "the account runs commands"
    return rate


def test_an_account_that_runs_commands_is_not_suspected(server: Sshd) -> None:
    for name, account in FINE.items():
        give(server, account)
        with SSHHost(target(server)) as ssh:
            ssh.check_account()
            assert ssh.run(["echo", "on"]).text == "on\n", name
            own = HostError("h1", "something else")
            assert ssh.explain(own) is own, name


def _check(ssh: SSHHost, _server: Sshd) -> None:
    survey(SSHMachine(ssh), ())


def _engine(ssh: SSHHost, _server: Sshd) -> None:
    engine = Engine.over(ssh)
    try:
        with engine.errors():
            engine.api.ping()
    finally:
        engine.close()


def _lock(ssh: SSHHost, server: Sshd) -> None:
    HostLock(ssh, "linear", LockHolder.current("up"), "token", LockPaths(own=str(server.directory))).take()


def _told(do: Callable[[SSHHost, Sshd], None], ssh: SSHHost, server: Sshd) -> str:
    with pytest.raises(Unreachable, match=r"^h1: [^\n]+$") as caught:
        do(ssh, server)
    return str(caught.value)
