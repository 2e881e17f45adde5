"""The verb `client`: the other end of `strategy: standalone`."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import click

from tfprov.cli.options import cluster_of, inventory_options
from tfprov.cli.output import Printer
from tfprov.engine.monitoring.client import client_config
from tfprov.errors import Usage
from tfprov.spark.distributor.ports import HeldPort


@click.command("client", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--address", metavar="ADDRESS", help="The address at which the servers reach this machine.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="The port on which the client listens. Default: a free one."
)
@inventory_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def client_command(address: str | None, port: int | None, command: Sequence[str], **options: Any) -> int:
    """With `-- COMMAND`, runs it on this machine; its exit code is tfprov's. Without, prints TF_CONFIG.

    For example `tfprov client -- python train.py`. TF_CONFIG has the servers, and the client as `chief`.
    """
    argv = list(command[1:] if command[:1] == ("--",) else command)
    context = cluster_of(options, Printer().handle).prepare()
    with HeldPort() as held:
        config = client_config(context, port or held.number, address)
        if not argv:
            click.echo(config)
            return 0
        try:
            return run_program(argv, {**os.environ, "TF_CONFIG": config})
        except OSError as error:
            raise Usage(f"cannot run {argv[0]}: {error.strerror}", "correct the command behind `--`") from None


def run_program(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a program to its end, which is its own decision after Ctrl-C; return its code, 128 + N after signal N.

    A terminal sends Ctrl-C to both; SIGTERM and SIGHUP are passed on. subprocess.run() would kill it after 0.25 s.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    def ignore(_number: int, _frame: FrameType | None) -> None: ...

    before = {}
    for number, handle in {signal.SIGINT: ignore, signal.SIGTERM: pass_on, signal.SIGHUP: pass_on}.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and the program inherits that
            before[number] = signal.signal(number, handle)
    try:
        started.append(subprocess.Popen(argv, env=env))
        for one in early:
            started[0].send_signal(one)
        code = started[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
