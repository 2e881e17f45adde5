"""The verb `client`: the other end of `strategy: standalone`."""

import os
import subprocess
from collections.abc import Sequence
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
            return subprocess.run(argv, env={**os.environ, "TF_CONFIG": config}, check=False).returncode
        except OSError as error:
            raise Usage(f"cannot run {argv[0]}: {error.strerror}", "correct the command behind `--`") from None
