"""A picture of a terminal in which commands were really run: `python -m tests.support.terminal_picture docs/run.svg`.

The commands run one after the other in a pseudo-terminal, with a home of their own; what is on its screen at the end,
and has left it at its top, becomes an SVG that fetches nothing.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.style import Style
from rich.text import Text

from tests.support.terminal import Terminal, terminal
from tfprov import atomic_write

COMMANDS = ("tfprov init hello --yes", "cd hello", "tfprov run")
COLUMNS = 100
_COLOURS = {"default": None, "brown": "yellow"}
"""pyte's names of colours that are others in rich."""


def run_in(screen: Terminal, commands: Sequence[str], directory: Path) -> None:
    """Run commands in one shell on the terminal, each behind a prompt. Raises CalledProcessError."""
    home = directory / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TFPROV_", "NO_COLOR"))}
    env = {**kept, "HOME": str(home), "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    lines = [f"printf '\\033[1m$ %s\\033[0m\\n' {shlex.quote(command)}; {command}" for command in commands]
    subprocess.run(
        ["bash", "-ec", "\n".join(lines)], cwd=directory, env=env, check=True,
        stdin=subprocess.DEVNULL, stdout=screen.out, stderr=screen.out, start_new_session=True,
    )  # fmt: skip


def styled(screen: Terminal) -> list[Text]:
    """Return the lines of a terminal with their colours."""
    lines = [_styled(line) for line in screen.cells()]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _styled(cells: Sequence[tuple[str, str, bool]]) -> Text:
    text = Text(no_wrap=True)
    for (colour, is_bold), run in groupby(cells, key=lambda cell: cell[1:]):
        text.append("".join(data for data, _, _ in run), Style(color=_COLOURS.get(colour, colour), bold=is_bold))
    text.rstrip()
    return text


def picture(lines: Sequence[Text], title: str) -> str:
    """Return the SVG; without the fonts of the network that rich would have a browser load."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, crop=True, overflow="crop")
    svg = console.export_svg(title=title, unique_id="terminal")
    return re.sub(r"\s*@font-face \{.*?\}(?=\s*[@.])", "", svg, flags=re.DOTALL)


def main(target: Path) -> None:
    """Write the picture of a run."""
    with TemporaryDirectory() as directory:
        with terminal(COLUMNS) as screen:
            run_in(screen, COMMANDS, Path(directory))
        atomic_write.replace(target, picture(styled(screen), "tfprov run").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
