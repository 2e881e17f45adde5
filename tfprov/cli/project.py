"""`tfprov init`: a place to start from."""

import os
import re
from pathlib import Path

import click

from tfprov.errors import Usage
from tfprov.paths import shipped

INVENTORY = """\
# A TensorFlow cluster for `tfprov run`: one ps and two workers on this machine.
# Groups, hosts, ranges and variables mean what they mean in Ansible; all that is tfprov's own stands under `tfprov:`.
all:
  vars:
    tfprov:
      cluster: {name}
      code: ./program                       # delivered to every host as it is; an edit restarts what runs it
      command: [python, linear.py]          # tfprov appends --job_name, --task_index, --ps_hosts, --worker_hosts
      flags: {{train_steps: 2000}}            # and these, as --train_steps=2000
      env: {{TF_CPP_MIN_LOG_LEVEL: "2", TF_ENABLE_ONEDNN_OPTS: "0"}}   # a quiet log
      checkpoints: {{to: ./checkpoints}}      # what the chief saves is gathered into ./checkpoints/{name}
  children:
    ps:                                     # holds the variables
      hosts: {{localhost: }}
    worker:                                 # worker 0 is the chief: it initialises the variables and saves them
      hosts: {{localhost: }}
      vars: {{tfprov: {{tasks_per_host: 2}}}}
"""


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--name", help="The cluster's name; default: the directory's.")
def init_command(directory: Path, name: str | None) -> None:
    """Files that exist already are never touched."""
    cluster = name or _cluster_name(directory.resolve().name)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", cluster):
        raise Usage(f"`{cluster}` is not a cluster name", "use lower-case letters, digits and `-`, at most 40 of them")
    files = {
        directory / "inventory.yml": INVENTORY.format(name=cluster),
        directory / "program" / "linear.py": (shipped("programs") / "linear.py").read_text(),
    }
    if existing := [path for path in files if path.exists()]:
        raise Usage(f"{existing[0]} exists already", "choose another directory")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise Usage(f"{path} cannot be written: {error.strerror}", "choose another directory") from None
        click.echo(f"wrote {path}")
    inside = "" if directory.resolve() == Path(os.curdir).resolve() else f"cd {directory} && "
    click.echo(f"next: {inside}tfprov run")


def _cluster_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "training"
