"""Options that several verbs share, with Ansible's letters, and the Cluster that they describe."""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfprov.cli.printing.verbose import verbose_option
from tfprov.cli.shells import values
from tfprov.errors import OWN_CODES, Problem, TaskFailed
from tfprov.paths import INVENTORY

if TYPE_CHECKING:  # verbs that only read an inventory import none of these
    from tfprov.api import Cluster
    from tfprov.engine.events import OnEvent
    from tfprov.model.inventory import Inventory
    from tfprov.vault.decrypt import Vault

F = TypeVar("F", bound=Callable[..., Any])
STREAM = "-"
"""Names the standard input or output, for options that can use it."""


def named_file(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the name of a file. An empty text, as of an unset variable of a script, is not the working directory."""
    if not value:
        raise click.BadParameter("an empty text names no file", context, parameter)
    return value


class OutputPath(click.Path):
    """A path to write to. An empty text, as of an unset variable of a script, is not the working directory.

    With `stdout`, None stands for the standard output, which `-` names; without, `-` is refused as a file.
    """

    def __init__(self, *, stdout: bool = False, **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._stdout = stdout

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the path; a usage error for an empty text."""
        if value == "":
            self.fail("an empty text names no file", parameter, context)
        if value == STREAM and self._stdout:
            return None
        if value == STREAM and self.file_okay:
            self.fail("`-` is no file; write `./-` for one of that name", parameter, context)
        return super().convert(value, parameter, context)


def source_options(command: F) -> F:
    """Add the options of the inventory: `-i`, `-e`, `-v`, `--lookup-dir`, and ansible-vault's passwords."""
    for option in (
        verbose_option(),
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
            shell_complete=values.files,
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
        click.option(
            "-e",
            "--extra-vars",
            "extra",
            multiple=True,
            metavar="VARS",
            shell_complete=values.vars_files,
            help="key=value, YAML, or @FILE.",
        ),
        click.option(
            "-i",
            "--inventory",
            "sources",
            multiple=True,
            show_default=f"$TFPROV_INVENTORY, else {INVENTORY}",
            metavar="SOURCE",
            shell_complete=values.files,
            help="The inventory: a file, a directory, a script, or `host1,host2`. Several are merged.",
        ),
    ):
        command = option(command)
    return command


def inventory_options(command: F) -> F:
    """Add the options of the inventory, and `--accept-new`."""
    return source_options(
        click.option("--accept-new", is_flag=True, help="Trust the keys of hosts that known_hosts does not have yet.")(
            command
        )
    )


def change_options(command: F) -> F:
    """Add the options of verbs that change hosts: those of the inventory, `-l` and `-f`."""
    command = click.option(
        "-f",
        "--forks",
        type=click.IntRange(1, 1000),
        help="Hosts to work on at the same time; default: 16 for each core of this machine, 32 to 128.",
    )(command)
    command = click.option(
        "-l", "--limit", metavar="PATTERN", shell_complete=values.patterns, help="Only these hosts."
    )(command)
    return inventory_options(command)


@contextmanager
def exit_code_of_training() -> Iterator[None]:
    """Exit with the chief's exit code instead of 1, unless that code has a meaning of its own for tfprov (OWN_CODES)."""
    try:
        yield
    except TaskFailed as error:
        error.exit_code = TaskFailed.exit_code if error.code in OWN_CODES else error.code
        raise


def named_runs(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """Return the value of an argument with runs. An empty text, as of an unset variable of a script, is not the newest."""
    texts = value if isinstance(value, tuple) else [value]
    if not all(text is None or text.strip() for text in texts):
        raise click.UsageError("an empty text names no run", context)
    return value


cluster_option = click.option("--cluster", metavar="NAME", help="Only runs of this cluster.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print data for programs.")
show_secrets_option = click.option(
    "--show-secrets", is_flag=True, help="Print secret values, which are masked otherwise."
)
resume_option = click.option(
    "--resume", is_flag=True, help="A training that starts goes on from the newest gathered checkpoint."
)
partial_option = click.option("--partial", is_flag=True, help="Keep what did start when something else did not.")


def sources_of(options: dict[str, Any]) -> Sequence[str]:
    """Return the inventory's sources: those of `-i`, else $TFPROV_INVENTORY, else ./inventory.yml."""
    sources: Sequence[str] = options["sources"] or (os.environ.get("TFPROV_INVENTORY") or INVENTORY,)
    if not all(source.strip() for source in sources):
        where = "`-i`" if options["sources"] else "`$TFPROV_INVENTORY`"
        raise click.UsageError(f"{where} names no file; for example `-i {INVENTORY}`")
    return sources


def vault_of(options: dict[str, Any]) -> "Vault":
    """Return the vault that decrypts the inventory's values with the passwords of the options."""
    from tfprov.vault.decrypt import Vault  # noqa: PLC0415
    from tfprov.vault.passwords import Passwords  # noqa: PLC0415  see below

    ask = _ask if sys.stdin.isatty() else None
    passwords = Passwords(options["vault_ids"], options["vault_files"], options["ask_vault_pass"], ask, os.environ)
    passwords.check()
    return Vault(passwords)


def _ask(question: str) -> str:
    answer: str = click.prompt(question, hide_input=True, default="", show_default=False, err=True)
    return answer


def warn(problem: Problem) -> None:
    """Print a warning about the inventory."""
    click.echo(problem.as_warning(), err=True)


def inventory_of(options: dict[str, Any]) -> "Inventory":
    """Return the inventory of the options, its settings unchecked."""
    from tfprov.settings.load import load_inventory  # noqa: PLC0415  see below

    return load_inventory(sources_of(options), options["extra"], vault_of(options), warn, options["lookup_dirs"])


def cluster_of(
    options: dict[str, Any],
    on_event: "OnEvent | None" = None,
    *,
    connect: bool | None = False,
    as_json: bool = False,
    starts: bool = True,
) -> "Cluster":
    """Return the cluster of the options, ready for its verbs.

    `connect` opens the connections to all hosts at once, for a verb that uses every host; None is for gathers, see
    tfprov.engine.assemble.Options. Plans are folded for people, and
    whole with `-v` and `as_json`. A verb that `starts` no task needs no code, data and the like here.
    """
    from tfprov.api import Cluster  # noqa: PLC0415  commands that only read an inventory need none of it

    cluster = Cluster.load(
        *sources_of(options),
        extra=options["extra"],
        limit=options.get("limit"),
        forks=options.get("forks"),
        accept_new=bool(options.get("accept_new")),
        fold=not (as_json or options.get("verbose")),
        vault=vault_of(options),
        lookup_dirs=options["lookup_dirs"],
        on_event=on_event,
        on_warning=warn,
    )
    click.get_current_context().call_on_close(cluster.close)
    cluster.prepare(connect=connect, starts=starts)
    gc.freeze()
    gc.enable()
    return cluster
