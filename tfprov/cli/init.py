"""`tfprov init`: writes a commented inventory and an example program."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tfprov.cli.options import OutputPath
from tfprov.editing.scalar_emitter import emit_text
from tfprov.errors import InvalidInput, Position, Problem, TfprovError, Usage, printable
from tfprov.inventory.host_names import SshTarget, read_machines
from tfprov.paths import shipped_directory, working_directory

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = ("python", "linear.py")
"""The command of the program that ships with tfprov."""

_LOCAL = """\
# A TensorFlow cluster for `tfprov run`: one ps and two workers on this machine.
# Groups, hosts, ranges and variables mean what they mean in Ansible; all that is tfprov's own stands under `tfprov:`.
all:
  vars:
    tfprov:
{settings}
  children:
    ps:                                     # holds the variables
      hosts: {{localhost: }}
    worker:                                 # worker 0 is the chief: it initialises the variables and saves them
      hosts: {{localhost: }}
      vars: {{tfprov: {{tasks_per_host: 2}}}}
"""

_REMOTE = """\
# A TensorFlow cluster over SSH, each task in a Docker container of its own host: {count}.
# Groups, hosts, ranges and variables mean what they mean in Ansible; all that is tfprov's own stands under `tfprov:`.
#
#   tfprov check                              # can every host do its part?
#   tfprov run                                # build, deliver, train, bring the checkpoint back, take it down
#
# A host needs sshd and Docker, nothing else; its user may use Docker there: a member of the group `docker`.
all:
  vars:
{user}    # ansible_ssh_private_key_file: ~/.ssh/id_ed25519   # default: what ~/.ssh/config and the agent say
    tfprov:
{settings}
      # memory: 2g                          # of each container; default: no limit
  children:
    ps:                                     # holds the variables
      hosts:
{ps}
    worker:                                 # worker 0 is the chief: it initialises the variables and saves them
      hosts:
{workers}
"""


@dataclass(frozen=True)
class InitOptions:
    """The contents of the new inventory. Without `machines` it is for this machine; `code` is the program's directory.

    `example` is whether the command is the one of the program that ships with tfprov, and not of one of the user's.
    """

    cluster: str
    machines: tuple[SshTarget, ...]
    command: tuple[str, ...]
    code: str
    example: bool

    def program_directory(self, directory: Path) -> Path:
        """Return the program's directory as the inventory in `directory` names it; `~` is the home directory there."""
        own_home = self.code.partition("/")[0] == "~"  # that of another user is refused
        return directory / (Path(self.code).expanduser() if own_home else self.code)


def inventory_text(wanted: InitOptions) -> str:
    """Return the commented inventory."""
    settings = "\n".join(f"      {line}" for line in _settings(wanted))
    if not wanted.machines:
        return _LOCAL.format(settings=settings)
    users = {machine.user for machine in wanted.machines}
    common = users.pop() if len(users) == 1 else None
    lines = [_host(machine, common) for machine in wanted.machines]
    workers = lines[1:] or lines
    tasks = "1 worker" if len(workers) == 1 else f"{len(workers)} workers"
    user = f"    ansible_user: {emit_text(common, flow=False)}\n" if common else ""
    count = f"1 ps and {tasks} on {len(lines)} machine{'s' * (len(lines) > 1)}"
    return _REMOTE.format(count=count, user=user, settings=settings, ps=lines[0], workers="\n".join(workers))


def _host(machine: SshTarget, common: str | None) -> str:
    values = []
    if machine.user and machine.user != common:
        values.append(f"ansible_user: {emit_text(machine.user, flow=True)}")
    if machine.port:
        values.append(f"ansible_port: {machine.port}")
    body = f" {{{', '.join(values)}}}" if values else ""
    return f"        {emit_text(machine.name, flow=False)}:{body}"


def _settings(wanted: InitOptions) -> Sequence[str]:
    name = emit_text(wanted.cluster, flow=False)
    command = ", ".join(emit_text(word, flow=True) for word in wanted.command)
    lines = [
        (f"cluster: {name}", ""),
        ("image: {build: ./image}", "built here once; hosts are sent the layers they lack")
        if wanted.machines
        else None,
        (
            f"code: {emit_text(wanted.code, flow=False)}",
            "delivered to every host as it is; an edit restarts what runs it",
        ),
        (f"command: [{command}]", "tfprov appends --job_name, --task_index, --ps_hosts, --worker_hosts"),
        ("flags: {train_steps: 2000}", "and these, as --train_steps=2000")
        if wanted.example
        else ("# flags: {train_steps: 2000}", "and what stands here, as --train_steps=2000"),
        ('env: {TF_CPP_MIN_LOG_LEVEL: "2", TF_ENABLE_ONEDNN_OPTS: "0"}', "a quiet log"),
        ("checkpoints: {to: ./checkpoints}", f"TFPROV_CHECKPOINT_DIR goes to ./checkpoints/{wanted.cluster}"),
    ]
    return [_commented(*line) for line in lines if line]


def _commented(text: str, comment: str) -> str:
    return f"{text.ljust(38)}{'' if len(text) < 38 else '   '}# {comment}" if comment else text


T = TypeVar("T")
_CLUSTER = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_SCHEMA = "inventory.schema.json"


@click.command("init")
@click.argument("directory", type=OutputPath(file_okay=False), default=Path())
@click.option("--name", help="The cluster's name; default: the directory's.")
@click.option("--local", is_flag=True, help="For this machine, with processes; the default.")
@click.option("--hosts", metavar="NAMES", help="For these machines, as SSH names them: `trainer@node1,node2:2200`.")
@click.option("--command", help="The program, such as `python train.py`; default: an example that is written too.")
@click.option("--code", metavar="DIR", help="The program's directory, relative to DIRECTORY; default: program.")
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
    if local and hosts is not None:
        raise Usage("`--local` and `--hosts` exclude each other", "give one of them")
    working_directory()
    _refuse_existing([directory / "inventory.yml"])
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    cluster = _ask_option(
        name, is_interactive, "Name of the cluster", _cluster_name(directory.resolve().name), _checked_name
    )
    machines: tuple[SshTarget, ...] = ()
    if not local:
        question = "Machines as SSH names them (user@node1, node2, …; `local`: this one)"
        machines = _ask_option(
            hosts, is_interactive, question, "local", lambda text: () if text == "local" else read_machines(text)
        )
    if hosts is not None and not machines:
        raise Usage("`--hosts` names no machine", "for example `--hosts trainer@node1,trainer@node2`")
    words = _ask_option(
        command,
        is_interactive and code is None,
        "Command that trains (default: an example)",
        shlex.join(EXAMPLE),
        _words,
    )
    example = command is None and words == EXAMPLE
    _write(directory, InitOptions(cluster, machines, words, code or "./program", example), schema=schema)


def _ask_option(text: str | None, is_interactive: bool, question: str, default: str, read: "Callable[[str], T]") -> T:
    """Return the option's value, the answer to the question, or the default; ask again after an invalid answer."""
    if text is not None or not is_interactive:
        return read(default if text is None else text)

    def answer(text: str) -> T:
        try:
            return read(text)
        except TfprovError as error:
            raise click.UsageError(str(error)) from None

    value: T = click.prompt(question, default=default, value_proc=answer)
    return value


def _checked_name(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise Usage(
            f"`{printable(text)}` is not a cluster name", "use lower-case letters, digits and `-`, at most 40 of them"
        )
    return text


def _cluster_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "training"


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise Usage(f"`{printable(text)}`: {str(error).lower()}", "close the quote") from None
    if not words:
        raise Usage("an empty command", "for example `python train.py`")
    return words


def _refuse_existing(paths: list[Path]) -> None:
    if existing := [path for path in paths if path.exists() or path.is_symlink()]:
        raise Usage(f"{existing[0]} exists already", "choose another directory")


def _write(directory: Path, wanted: InitOptions, *, schema: bool) -> None:
    program = wanted.program_directory(directory)
    modeline = f"# yaml-language-server: $schema={_SCHEMA}\n" if schema else ""
    files = {directory / "inventory.yml": modeline + inventory_text(wanted)}
    if wanted.example:
        files[program / "linear.py"] = (shipped_directory("programs") / "linear.py").read_text()
    if wanted.machines:
        files[directory / "image" / "Dockerfile"] = (shipped_directory("train_image") / "Dockerfile").read_text()
    if schema:
        files[directory / _SCHEMA] = (shipped_directory("schemas") / _SCHEMA).read_text()
    _refuse_existing([*files])
    written: list[Path] = []
    try:
        for path, text in files.items():
            _create(path, text, written)
        _validate(directory / "inventory.yml", files[directory / "inventory.yml"].splitlines())
    except BaseException:  # a second try must not meet the files of the first
        _take_back(written)
        raise
    for path in files:
        click.echo(f"wrote {path}")
    inside = "" if directory.resolve() == Path(os.curdir).resolve() else f"cd {_for_cd(directory)} && "
    if not wanted.example and not program.is_dir():
        click.echo(f"put your program into {program}")
    click.echo(f"next: {inside}tfprov {'check' if wanted.machines else 'run'}")


def _for_cd(directory: Path) -> str:
    """Return `directory` as a word for `cd`, to which one with a dash in front would be an option or the last directory."""
    return shlex.quote(f"./{directory}" if str(directory).startswith("-") else str(directory))


def _create(path: Path, text: str, written: list[Path]) -> None:
    """Write a new file and add it to `written`, after its new directories, also one that a full disk cuts off."""
    try:
        for above in reversed(path.parents):
            if not above.is_dir():
                above.mkdir()
                written.append(above)
        with path.open("x", encoding="utf-8") as file:
            written.append(path)
            file.write(text)
    except OSError as error:
        raise Usage(f"{path} cannot be written: {error.strerror}", "choose another directory") from None


def _take_back(written: Sequence[Path]) -> None:
    """Remove what `_create` has made, but for directories in which somebody else has put something meanwhile."""
    for path in reversed(written):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _validate(path: Path, lines: Sequence[str]) -> None:
    """Load the inventory that was written. Raises InvalidInput, at an option for that file, which is removed again."""
    from tfprov.planning.tasks import assign_tasks  # noqa: PLC0415
    from tfprov.settings.load import load  # noqa: PLC0415

    try:
        assign_tasks(load(path)[1])
    except InvalidInput as error:
        at = [_option(one.at, lines) if Path(one.at.file) == path else one.at for one in error.problems]
        raise InvalidInput(
            Problem(where, one.what, one.fix) for where, one in zip(at, error.problems, strict=True)
        ) from None


def _option(at: Position, lines: Sequence[str]) -> Position:
    """Return the option that a position in the new inventory comes from."""
    name = lines[at.line - 1].partition(":")[0].strip() if at.line else ""
    return Position({"code": "--code", "command": "--command"}.get(name, "--hosts"))
