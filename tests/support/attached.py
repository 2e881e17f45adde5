"""Runs a program as `exec -it` and `ssh` do, for tests that give it a terminal: `python -m tests.support.attached ORDER`.

ORDER is JSON: `kind` (process, engine, engine over SSH, login), `argv`, `tty`, and where it runs. The exit code is the
program's.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.exec import run_attached
from tfprov.hosts.process import exec as process_exec
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.shell_session import run_session
from tfprov.hosts.terminal import ExecMode


def target_of(order: dict[str, Any]) -> SSHTarget:
    """Return the SSH settings of an order."""
    return SSHTarget(
        "h1", "127.0.0.1", order["port"], key_files=(Path(order["key"]),), known_hosts=(Path(order["known_hosts"]),)
    )


def main(order: dict[str, Any]) -> int:
    """Run the program of an order, and return its exit code."""
    mode, argv = ExecMode(stdin=True, tty=order["tty"]), order["argv"]
    if order["kind"] == "process":
        return process_exec.run(argv, dict(os.environ), Path.cwd(), mode)
    if order["kind"] == "engine":
        return run_attached(Engine.local("h1", Path(order["socket"])), order["container"], argv, mode)
    with SSHHost(target_of(order)) as ssh:
        if order["kind"] == "login":
            return run_session(ssh, argv, mode)
        return run_attached(Engine.over(ssh, order["docker"]), order["container"], argv, mode)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
