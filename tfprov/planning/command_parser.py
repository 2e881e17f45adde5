"""Parses commands: the program, and the script or module that an interpreter runs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
_WITH_VALUE = "WX"
"""Options of Python with a value, in the same word or the next."""


@dataclass(frozen=True)
class Program:
    """A parsed command: the executable, and for an interpreter the `script` or `module` that it runs.

    `text` is a program on the command line itself. Each is empty if there is none.
    """

    command: str
    script: str = ""
    module: str = ""
    text: str = ""

    @property
    def is_python(self) -> bool:
        """Whether the executable is Python."""
        return _PYTHON.fullmatch(PurePosixPath(self.command).name) is not None


def parse_command(words: Sequence[str]) -> Program:
    """Parse the `words` of a command; after an unknown option, the script stays empty."""
    command, rest = words[0], list(words[1:])
    name = PurePosixPath(command).name
    if _PYTHON.fullmatch(name):
        return _parse_python(command, rest)
    if name in _SHELLS:
        return _parse_shell(command, rest)
    return Program(command)


def _parse_python(command: str, rest: list[str]) -> Program:
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            return Program(command, script=word)
        if word == "-" or word.startswith("--"):
            return Program(command)
        for at, letter in enumerate(word[1:], 2):
            if letter not in (*_WITH_VALUE, "c", "m"):
                continue
            value = word[at:] or (rest.pop(0) if rest else "")
            if letter == "m":
                return Program(command, module=value)
            if letter == "c":
                return Program(command, text=value)
            break
    return Program(command)


def _parse_shell(command: str, rest: Sequence[str]) -> Program:
    for word in rest:
        if not word.startswith(("-", "+")):
            return Program(command, script=word)
        if word not in ("-e", "-u", "-x", "-eu", "-ex", "-eux"):  # `-c` and options with a value
            break
    return Program(command)


def parse_shebang(first_line: bytes) -> str:
    """Return the interpreter in a script's first line, `python3` for `#!/usr/bin/env python3`; empty without one."""
    words = first_line.removeprefix(b"#!").decode("utf-8", errors="replace").split()
    if not first_line.startswith(b"#!") or not words:
        return ""
    if PurePosixPath(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), words[0])


def module_files(module: str) -> Iterator[str]:
    """Yield the paths that `python -m` may run for `module`."""
    path = module.replace(".", "/")
    yield from (f"{path}.py", f"{path}/__main__.py")
