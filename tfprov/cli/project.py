"""`tfprov init`: a place to start from."""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tfprov.errors import InvalidInput, TfprovError, Usage, shown
from tfprov.paths import shipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfprov.cli.starting import Machine, Wanted

T = TypeVar("T")
_CLUSTER = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_SCHEMA = "inventory.schema.json"


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--name", help="The cluster's name; default: the directory's.")
@click.option("--local", is_flag=True, help="For this machine, with processes; the default.")
@click.option("--hosts", metavar="NAMES", help="For these machines, as SSH names them: `trainer@node1,node2:2200`.")
@click.option("--command", help="The program, such as `python train.py`; default: an example that is written too.")
@click.option("--code", metavar="DIR", help="Where the program lies, seen from DIRECTORY; default: program.")
@click.option("--schema", is_flag=True, help="Write the JSON Schema beside it, which gives editors completion.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
def init_command(  # noqa: PLR0913, PLR0917  an argument for every option
    directory: Path,
    name: str | None,
    local: bool,
    hosts: str | None,
    command: str | None,
    code: str | None,
    schema: bool,
    yes: bool,
) -> None:
    """Asks for what no option says, on a terminal. Files that exist already are never touched."""
    from tfprov.cli.starting import EXAMPLE, Wanted, read_machines  # noqa: PLC0415  the others need no YAML

    if local and hosts is not None:
        raise Usage("`--local` and `--hosts` say two things", "give one of them")
    _refuse_existing([directory / "inventory.yml"])
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    cluster = _given(name, asks, "Name of the cluster", _cluster_name(directory.resolve().name), _checked_name)
    machines: tuple[Machine, ...] = ()
    if not local:
        question = "Machines as SSH names them (user@node1, node2, …; `local`: this one)"
        machines = _given(hosts, asks, question, "local", lambda text: () if text == "local" else read_machines(text))
    if hosts is not None and not machines:
        raise Usage("`--hosts` names no machine", "for example `--hosts trainer@node1,trainer@node2`")
    words = _given(
        command, asks and code is None, "Command that trains (default: an example)", shlex.join(EXAMPLE), _words
    )
    _write(directory, Wanted(cluster, machines, words, code or "./program"), schema=schema)


def _given(text: str | None, asks: bool, question: str, default: str, read: "Callable[[str], T]") -> T:
    """Return what an option says, or the answer to a question, or the default; a wrong answer is asked for again."""
    if text is not None or not asks:
        return read(default if text is None else text)

    def answer(text: str) -> T:
        try:
            return read(text)
        except TfprovError as error:
            raise click.UsageError(str(error)) from None

    found: T = click.prompt(question, default=default, value_proc=answer)
    return found


def _checked_name(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise Usage(
            f"`{shown(text)}` is not a cluster name", "use lower-case letters, digits and `-`, at most 40 of them"
        )
    return text


def _cluster_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "training"


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise Usage(f"`{shown(text)}`: {str(error).lower()}", "close the quote") from None
    if not words:
        raise Usage("an empty command", "for example `python train.py`")
    return words


def _refuse_existing(paths: list[Path]) -> None:
    if existing := [path for path in paths if path.exists() or path.is_symlink()]:
        raise Usage(f"{existing[0]} exists already", "choose another directory")


def _write(directory: Path, wanted: "Wanted", *, schema: bool) -> None:
    from tfprov.cli.starting import EXAMPLE, inventory_text  # noqa: PLC0415

    example = wanted.command == EXAMPLE
    modeline = f"# yaml-language-server: $schema={_SCHEMA}\n" if schema else ""
    files = {directory / "inventory.yml": modeline + inventory_text(wanted)}
    if example:
        files[directory / wanted.code / "linear.py"] = (shipped("programs") / "linear.py").read_text()
    if wanted.machines:
        files[directory / "image" / "Dockerfile"] = (shipped("images") / "Dockerfile").read_text()
    if schema:
        files[directory / _SCHEMA] = (shipped("schemas") / _SCHEMA).read_text()
    _refuse_existing([*files])
    for path, text in files.items():
        _create(path, text)
    _validate(directory / "inventory.yml", [*files])
    for path in files:
        click.echo(f"wrote {path}")
    inside = "" if directory.resolve() == Path(os.curdir).resolve() else f"cd {shlex.quote(str(directory))} && "
    if not example and not (directory / wanted.code).is_dir():
        click.echo(f"put your program into {directory / wanted.code}")
    click.echo(f"next: {inside}tfprov {'check' if wanted.machines else 'run'}")


def _create(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Usage(f"{path} cannot be written: {error.strerror}", "choose another directory") from None


def _validate(path: Path, written: list[Path]) -> None:
    """Make sure that what was written is an inventory; a command that cannot be one leaves nothing behind."""
    from tfprov.config.load import load  # noqa: PLC0415
    from tfprov.planning.place import place  # noqa: PLC0415

    try:
        place(load(path)[1])
    except InvalidInput:
        for one in written:
            one.unlink()
        raise
