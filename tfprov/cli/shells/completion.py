"""The verb `completion`: prints or installs the script with which bash, zsh or fish completes tfprov's command lines."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tfprov.atomic_write import replace, rewrite
from tfprov.cli.main import LazyGroup
from tfprov.cli.shells.answer import VARIABLE
from tfprov.errors import Usage, printable

SHELLS = ("bash", "zsh", "fish")
COMMANDS = {
    "show": ("shells.completion", "Print the completion script of a shell."),
    "install": ("shells.completion", "Install completion for a shell; a second time changes nothing."),
}
_MARK = "# completion of tfprov"
_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
"""A .zshrc that does not initialise completion itself gets it."""

_WHOLE_WORDS = r"""
_tfprov_whole_words() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() piece word char i cut=0
    for ((i = 0; i <= COMP_CWORD; i++)); do
        piece=${rest#"${rest%%[![:space:]]*}"}
        if ((i == 0)) || [[ $piece != "$rest" ]]; then
            words+=("")
        fi
        rest=
        if ((i < COMP_CWORD)); then
            rest=${piece#"${COMP_WORDS[i]}"}
            piece=${COMP_WORDS[i]}
        fi
        words[${#words[@]}-1]+=$piece
    done
    COMP_WORDS=("${words[@]}")
    COMP_CWORD=$((${#words[@]} - 1))
    _tfprov_completion "$@"
    word=${words[COMP_CWORD]}
    if [[ $word == -*=* ]]; then
        word=${word#*=}
    fi
    for ((i = 0; i < ${#word}; i++)); do
        char=${word:i:1}
        if [[ $char == [\"\'] ]]; then
            cut=$i
            break
        elif [[ $COMP_WORDBREAKS == *"$char"* && $char != [[:space:]] ]]; then
            cut=$i
            [[ $char == @ ]] || cut=$((i + 1))
        fi
    done
    COMPREPLY=("${COMPREPLY[@]#"${word:0:cut}"}")
}

complete -o nosort -F _tfprov_whole_words tfprov
"""
"""Lets bash complete `-l ps:wor` and `-e @vars`, which it splits at the characters of COMP_WORDBREAKS, such as `:` and `@`.

click's function gets the words as they stand on the line, up to the cursor. A candidate takes the place only of what is
behind the last of these characters (of an `@` itself, too) or behind an open quote, so that its beginning is cut off.
"""


@dataclass(frozen=True)
class Installation:
    """Where the script of a shell goes, and the start-up file with the line that reads it; None if the shell finds it."""

    script: Path
    startup: Path | None = None

    @property
    def line(self) -> str:
        """The line of the start-up file."""
        path = str(self.script).replace("'", "'\\''")
        return f"[ -r '{path}' ] && . '{path}'  {_MARK}"


def installation(shell: str, home: Path, environ: Mapping[str, str]) -> Installation:
    """Return where the files of a shell are for a user, by the XDG variables and zsh's ZDOTDIR."""
    if shell == "fish":
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Installation(config / "fish" / "completions" / "tfprov.fish")
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    startup = home / ".bashrc" if shell == "bash" else Path(environ.get("ZDOTDIR") or home) / ".zshrc"
    return Installation(data / "tfprov" / f"completion.{shell}", startup)


def script(shell: str) -> str:
    """Return the completion script of a shell, which is click's, with an addition for bash and zsh."""
    made = get_completion_class(shell)
    assert made is not None, "click knows all three"
    # Not source(): for bash it starts a bash, to warn about one older than 4.4.
    one = made(click.Command("tfprov"), {}, "tfprov", VARIABLE)
    before, behind = _COMPINIT if shell == "zsh" else "", _WHOLE_WORDS if shell == "bash" else ""
    return f"{before}{one.source_template % one.source_vars()}\n{behind}"


def install(shell: str, where: Installation) -> list[Path]:
    """Write the script, and the line in the start-up file; return the files that were changed."""
    changed = []
    text = script(shell).encode()
    if not where.script.exists() or where.script.read_bytes() != text:
        where.script.parent.mkdir(parents=True, exist_ok=True)
        replace(where.script, text)
        changed.append(where.script)
    if where.startup is not None:
        changed += _add_line(where.startup, where.line.encode())
    return changed


def _add_line(startup: Path, line: bytes) -> list[Path]:
    """Add the line to a start-up file, in place of an older one of tfprov's; a link to a file elsewhere stays a link."""
    if not startup.exists():
        replace(startup, line + b"\n")
        return [startup]
    before = startup.read_bytes()
    if line in before.splitlines():
        return []
    kept = b"".join(one for one in before.splitlines(keepends=True) if not one.rstrip().endswith(_MARK.encode()))
    gap = b"" if not kept or kept.endswith(b"\n") else b"\n"
    rewrite(startup, before, kept + gap + line + b"\n")
    return [startup]


def shell_of(name: str | None, environ: Mapping[str, str]) -> str:
    """Return the shell called `name`, by default the login shell; raise Usage for another one than SHELLS."""
    chosen = name or Path(environ.get("SHELL") or "").name
    if chosen not in SHELLS:
        what = f"no completion for the shell `{printable(chosen)}`" if chosen else "SHELL names no shell"
        raise Usage(what, f"name one of them: {', '.join(SHELLS)}")
    return chosen


@click.group("completion", cls=LazyGroup, table=COMMANDS, noun="command")
def completion_command() -> None:
    """Completes verbs, options, tasks, hosts, render targets and files. No host is contacted for that."""


@click.command("show")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def show_command(shell: str | None) -> None:
    """Without a name: of the login shell. For example `source <(tfprov completion show bash)`."""
    click.echo(script(shell_of(shell, os.environ)), nl=False)


@click.command("install")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def install_command(shell: str | None) -> None:
    """Without a name: for the login shell. bash and zsh get one line in ~/.bashrc or ~/.zshrc, fish a file of its own."""
    name = shell_of(shell, os.environ)
    where = installation(name, Path.home(), os.environ)
    try:
        changed = install(name, where)
    except OSError as error:
        error.filename = error.filename or where.startup  # of a file that must not be replaced
        fix = f"put the output of `tfprov completion show {name}` where your shell reads it"
        raise Usage(f"cannot write {error.filename}: {error.strerror}", fix) from None
    for path in changed:
        click.echo(f"wrote {path}")
    click.echo("start a new shell to use it" if changed else "completion is installed already")
