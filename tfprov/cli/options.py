"""Options that several verbs share, with Ansible's letters, and the way from them to a Cluster."""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfprov.errors import OWN_CODES, Problem, TaskFailed
from tfprov.paths import INVENTORY

if TYPE_CHECKING:  # what only reads an inventory needs none of the machinery that acts on one
    from tfprov.api import Cluster
    from tfprov.engine.events import OnEvent
    from tfprov.model.inventory import Inventory
    from tfprov.vault.decrypt import Vault

F = TypeVar("F", bound=Callable[..., Any])


def source_options(command: F) -> F:
    """Add what says where the inventory is and how to read it: `-i`, `-e`, `-v` and the passwords of ansible-vault."""
    for option in (
        click.option("-v", "--verbose", count=True, help="Say more; -vv shows where an internal error comes from."),
        click.option("--vault-id", "vault_ids", multiple=True, metavar="[ID@]SOURCE", help="A vault id's password."),
        click.option(
            "-J",
            "--ask-vault-pass",
            "--ask-vault-password",
            is_flag=True,
            help="Ask for the password of ansible-vault.",
        ),
        click.option(
            "--vault-password-file",
            "--vault-pass-file",
            "vault_files",
            multiple=True,
            metavar="FILE",
            help="Where that password is.",
        ),
        click.option(
            "--lookup-dir",
            "lookup_dirs",
            multiple=True,
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            help="Templates may look up files below DIR, too, and not only beside the inventory.",
        ),
        click.option("-e", "--extra-vars", "extra", multiple=True, metavar="VARS", help="key=value, YAML, or @FILE."),
        click.option(
            "-i",
            "--inventory",
            "sources",
            multiple=True,
            show_default=f"$TFPROV_INVENTORY, else {INVENTORY}",
            metavar="SOURCE",
            help="The inventory: a file, a directory, a script, or `host1,host2`. Several are merged.",
        ),
    ):
        command = option(command)
    return command


def inventory_options(command: F) -> F:
    """Add `-i` and its company, and `--accept-new`."""
    return source_options(
        click.option("--accept-new", is_flag=True, help="Trust the keys of hosts that known_hosts does not have yet.")(
            command
        )
    )


def change_options(command: F) -> F:
    """Add what verbs that touch hosts take besides: `-l` and `-f`."""
    command = click.option(
        "-f", "--forks", type=click.IntRange(1, 1000), help="Hosts worked on at a time; 32 when nothing is said."
    )(command)
    command = click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts.")(command)
    return inventory_options(command)


@contextmanager
def exit_code_of_training() -> Iterator[None]:
    """End with the exit code of the training instead of tfprov's own 1, unless that would say something about tfprov."""
    try:
        yield
    except TaskFailed as error:
        error.exit_code = TaskFailed.exit_code if error.code in OWN_CODES else error.code
        raise


json_option = click.option("--json", "as_json", is_flag=True, help="Print data for programs.")
show_secrets_option = click.option(
    "--show-secrets", is_flag=True, help="Print secret values, which are masked otherwise."
)
resume_option = click.option(
    "--resume", is_flag=True, help="A training that starts goes on from the newest gathered checkpoint."
)
partial_option = click.option("--partial", is_flag=True, help="Keep what did start when something else did not.")


def sources_of(options: dict[str, Any]) -> Sequence[str]:
    """Return the sources of the inventory that a verb's options name, or those that are meant without."""
    sources: Sequence[str] = options["sources"] or (os.environ.get("TFPROV_INVENTORY") or INVENTORY,)
    if not all(source.strip() for source in sources):
        raise click.UsageError(f"`-i` names no file; for example `-i {INVENTORY}`")
    return sources


def vault_of(options: dict[str, Any]) -> "Vault":
    """Return what opens the encrypted values of the inventory, with the passwords that a verb's options name."""
    from tfprov.vault.decrypt import Vault  # noqa: PLC0415
    from tfprov.vault.passwords import Passwords  # noqa: PLC0415  see below

    ask = _ask if sys.stdin.isatty() else None
    given = Passwords(options["vault_ids"], options["vault_files"], options["ask_vault_pass"], ask, os.environ)
    return Vault(given)


def _ask(question: str) -> str:
    answer: str = click.prompt(question, hide_input=True, default="", show_default=False, err=True)
    return answer


def warn(problem: Problem) -> None:
    """Print what is odd about an inventory and ends nothing."""
    click.echo(problem.as_warning(), err=True)


def inventory_of(options: dict[str, Any]) -> "Inventory":
    """Return the inventory that a verb's options describe, with its settings unchecked."""
    from tfprov.settings.load import load_inventory  # noqa: PLC0415  see below

    return load_inventory(sources_of(options), options["extra"], vault_of(options), warn, options["lookup_dirs"])


def cluster_of(options: dict[str, Any], on_event: "OnEvent | None" = None, *, connect: bool = False) -> "Cluster":
    """Return the cluster that a verb's options describe, ready for its verbs.

    `connect` begins to connect to every host, for a verb that uses them all.
    """
    from tfprov.api import Cluster  # noqa: PLC0415  commands that only read an inventory need none of it
    from tfprov.engine.context import DEFAULT_FORKS  # noqa: PLC0415

    cluster = Cluster.load(
        *sources_of(options),
        extra=options["extra"],
        limit=options.get("limit"),
        forks=options.get("forks") or DEFAULT_FORKS,
        accept_new=bool(options.get("accept_new")),
        vault=vault_of(options),
        lookup_dirs=options["lookup_dirs"],
        on_event=on_event,
        on_warning=warn,
    )
    click.get_current_context().call_on_close(cluster.close)
    cluster.prepare(connect=connect)
    gc.freeze()
    gc.enable()
    return cluster
