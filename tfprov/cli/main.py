"""The `tfprov` command: finds the verb, imports only what that verb needs, and exits with the right code."""

import contextlib
import errno
import gc
import importlib
import inspect
import os
import re
import signal
import sys
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from tfprov import __version__
from tfprov.cli.escape_sequences import Screened, write_any_text
from tfprov.cli.printing.colour import add_colour_option
from tfprov.errors import (
    HUNG_UP,
    INTERRUPTED,
    TERMINATED,
    UNREAD,
    CombinedError,
    HangUp,
    InvalidInput,
    Terminated,
    TfprovError,
    mask_secrets,
    suggest,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Table = Mapping[str, tuple[str, str]]
"""Every command with its module below `tfprov.cli`, and its line of help."""


class LazyGroup(click.Group):
    """Imports a command's module when the command is used: `--help` imports none of them.

    The command `add-host` is `add_host_command` in its module. Messages call a command a `noun`.
    """

    def __init__(self, *args: Any, table: Table, noun: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.noun = table, noun
        self._imported: dict[str, click.Command] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them."""
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command called `name`."""
        if name not in self.table:
            return None
        if name not in self._imported:  # its help is completed once
            self._imported[name] = self._import(name)
        return self._imported[name]

    def _import(self, name: str) -> click.Command:
        module = importlib.import_module(f"tfprov.cli.{self.table[name][0]}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        command.help = self.table[name][1] + ("\n\n" + inspect.cleandoc(command.help) if command.help else "")
        add_colour_option(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer the commands from the table, without importing them; options after a dash."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion needs it

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section(f"{self.noun.capitalize()}s"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for an unknown one, raise UsageError with the closest name."""
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            fix = suggest(name, self.table, f"see `{ctx.command_path} --help`", cutoff=0.5)
            raise click.UsageError(f"no {self.noun} `{name}`; {fix}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command; an error of click's parser, which names no command, gets that one for its hint."""
        try:
            return super().invoke(ctx)
        except click.BadOptionUsage as error:
            if error.ctx is None and (name := ctx.invoked_subcommand):
                error.ctx = click.Context(self._imported[name], ctx, name)
            raise


VERBS = {
    "init": ("init", "Write a commented inventory and a program to start from."),
    "check": ("check", "Look whether every host can do its part, before anything is brought to it."),
    "plan": ("plan_up", "Show what `up` would do, and why."),
    "up": ("plan_up", "Build, deliver, start, and wait until every task serves."),
    "run": ("play", "Up, follow the training, gather, down; ends with the chief's exit code."),
    "attach": ("runs.attach", "Follow a run that goes on without its terminal, from any terminal."),
    "wait": ("watch", "Wait until the chief is done, or until every task serves."),
    "status": ("watch", "Show every task, how fast it is, and how far the chief has got."),
    "logs": ("watch", "Show what tasks print."),
    "tensorboard": ("watch", "Show the address of the cluster's TensorBoard, and lead there until Ctrl-C."),
    "serving": ("watch", "Show the address of the cluster's model server, and lead there until Ctrl-C."),
    "notebook": ("watch", "Show the address of the cluster's notebook, and lead there until Ctrl-C."),
    "dashboard": ("dashboard", "Show clusters, runs and their curves in a browser."),
    "client": ("client", "Run a program with the TF_CONFIG of a client of bare servers, or print it."),
    "exec": ("tasks.exec", "Run a command beside a task."),
    "cp": ("tasks.cp", "Copy files from a task, or into it."),
    "ssh": ("tasks.ssh", "Log in on a host, or run a command there."),
    "gather": ("play", "Bring back new checkpoints and event files, whole and verified."),
    "down": ("play", "Gather once more, stop everything in order, and remove it."),
    "runs": ("runs.group", "Show, compare and remove the runs that were recorded on this controller."),
    "inventory": ("inventory.group", "Show, explain and edit the inventory."),
    "image": ("images", "Build, deliver, list and prune images on their own."),
    "records": ("records", "Show and verify TFRecord files."),
    "render": ("render", "Write the cluster for Kubernetes, Kubeflow, Compose, Swarm, Marathon, Slurm or Spark."),
    "import": ("import_", "Make an inventory of a Compose file, a TFJob, or Kubernetes objects."),
    "play": ("play", "Play a playbook, or show one that ships with tfprov."),
    "completion": ("shells.completion", "Complete command lines in bash, zsh and fish."),
    "help": ("shells.help", "Show the help of a verb."),
}
"""Every verb with its module and its line of help. Here, so that `tfprov --help` imports none of the modules."""


@click.group(cls=LazyGroup, table=VERBS, noun="verb", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="tfprov %(version)s")
def tfprov() -> None:
    """Start, watch and take down distributed TensorFlow from one YAML inventory."""


add_colour_option(tfprov)


def main() -> NoReturn:
    """Run the command line and exit."""
    # Imports create no garbage; collecting during them takes a tenth of a short command's time.
    gc.disable()
    _open_streams()
    if "_TFPROV_COMPLETE" in os.environ:
        from tfprov.cli.shells.answer import VARIABLE, answer  # noqa: PLC0415  a shell asks for it at a TAB only

        sys.exit(answer(tfprov, os.environ[VARIABLE]))
    write_any_text(sys.stdout)
    sys.stdout, sys.stderr = Screened(sys.stdout), Screened(sys.stderr)
    terminated: list[int] = []

    def terminate(number: int, _frame: FrameType | None) -> NoReturn:
        """Drain as after Ctrl-C."""
        terminated.append(number)
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _hang_up)
    try:
        code = _flushed(run(sys.argv[1:]))
    except KeyboardInterrupt:  # a second Ctrl-C, while the first is being reported
        code = INTERRUPTED
    if code == INTERRUPTED and terminated:
        code = TERMINATED
    if code in (INTERRUPTED, TERMINATED, HUNG_UP):  # do not join threads that read logs or wait for a host
        os._exit(code)
    sys.exit(code)


def _open_streams() -> None:
    """Open closed standard streams (`>&-`) on /dev/null: a socket would get their number, and receive the output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _flushed(code: int) -> int:
    """Flush both output streams, so that the interpreter's exit cannot fail on them; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            _discard(stream)
            code = code or (UNREAD if isinstance(error, BrokenPipeError) else 1)
    return code


def _discard(stream: TextIO) -> None:
    """Drop what `stream` has buffered: its reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1 if stream is sys.stdout else 2)
    os.close(nowhere)


def _hang_up(number: int, frame: FrameType | None) -> NoReturn:
    """Leave the cluster running; ignore further hang-ups."""
    signal.signal(number, signal.SIG_IGN)
    raise HangUp


def run(argv: list[str]) -> int:
    """Run one command line, and return its exit code."""
    try:
        code = tfprov.main(argv, prog_name="tfprov", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt, HangUp) as error:
        return _interrupted(error)
    except click.exceptions.NoArgsIsHelpError as error:
        return _show_help(error.format_message())
    except click.ClickException as error:
        return _fail(_one_line(error), 2)
    except CombinedError as error:
        return max(_fail(_line(one), error.exit_code) for one in error.errors)
    except TfprovError as error:
        return _fail(_line(error), error.exit_code)
    except (BrokenPipeError, SystemExit):  # `tfprov logs | head`: click raises SystemExit for a closed pipe
        _discard(sys.stdout)
        return UNREAD
    except Exception as error:
        return _unforeseen(error, whole="-vv" in argv)
    return code if isinstance(code, int) else 0


def _show_help(text: str) -> int:
    """Print the help that a command without its verb shows: like docker's and kubectl's, that is no error."""
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        return UNREAD
    return 0


def _interrupted(error: BaseException) -> int:
    if isinstance(error, HangUp):
        what = "the terminal was closed: what runs goes on"
        if error.args[:1] == (True,):
            return _fail(f"error: {what}, and is taken down at its end; `tfprov attach` follows it", HUNG_UP)
        return _fail(f"error: {what}; `tfprov status` shows it and `tfprov wait` follows it", HUNG_UP)
    if isinstance(error, KeyboardInterrupt):  # click ends the line for Abort
        print("interrupted", file=sys.stderr)
    return INTERRUPTED


def _unforeseen(error: Exception, *, whole: bool) -> int:
    """Print an unexpected error: in one line, or with its traceback if `whole`."""
    if whole:
        return _fail(mask_secrets("error: " + "".join(traceback.format_exception(error)).rstrip()), 1)
    if isinstance(error, UnicodeEncodeError) and sys.getfilesystemencoding() != "utf-8":
        what = f"a file name with `{error.object[error.start]}` is impossible in this locale"
        return _fail(mask_secrets(f"error: {what}; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"), 1)
    where = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
    fix = "give this user access to it" if isinstance(error, PermissionError) else "run again with -vv for the details"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = f"free some{' there' if where else ', or write the output elsewhere'}"
    return _fail(mask_secrets(f"error: {reason}{where}; {fix}"), 1)


def _one_line(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".").replace("\n", " ")
    message = re.sub(r"'([^']*)'", r"`\1`", message[0].lower() + message[1:])
    message = re.sub(r"\. [Dd]id you mean:? (.*?)\??$", r"; did you mean \1?", message)
    message = message.replace("a valid integer range", "a whole number").replace("a valid float range", "a number")
    if isinstance(error, click.UsageError) and "; " not in message:
        message += f"; see `{error.ctx.command_path if error.ctx else 'tfprov'} --help`"
    return f"error: {message}"


def _line(error: TfprovError) -> str:
    """Return the printed form of an error; problems of files begin with their position instead of `error:`."""
    return str(error) if isinstance(error, InvalidInput) else f"error: {error}"


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # the terminal or the pipe was closed
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr)
    return code
