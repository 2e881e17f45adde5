"""What a command runs: its program, and the script or module that an interpreter is to run. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
_WITH_VALUE = "WX"
"""Options of Python that take a value, in the same word or in the next."""


@dataclass(frozen=True)
class Program:
    """`command` is what is started. Of an interpreter, `script` is the file, `module` the module that it runs.

    `text` is a program that stands on the command line itself; each is empty where there is none.
    """

    command: str
    script: str = ""
    module: str = ""
    text: str = ""

    @property
    def is_python(self) -> bool:
        """Whether it is Python that is started."""
        return _PYTHON.fullmatch(PurePosixPath(self.command).name) is not None


def parse_command(words: Sequence[str]) -> Program:
    """Return what the `words` of a command run; options that are not known leave the script unknown."""
    command, rest = words[0], list(words[1:])
    name = PurePosixPath(command).name
    if _PYTHON.fullmatch(name):
        return _of_python(command, rest)
    if name in _SHELLS:
        return _of_shell(command, rest)
    return Program(command)


def _of_python(command: str, rest: list[str]) -> Program:
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            return Program(command, script=word)
        if word in ("-", "--") or word.startswith("--"):
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


def _of_shell(command: str, rest: Sequence[str]) -> Program:
    for word in rest:
        if not word.startswith(("-", "+")):
            return Program(command, script=word)
        if word not in ("-e", "-u", "-x", "-eu", "-ex", "-eux"):  # `-c` and all that takes a value
            break
    return Program(command)


def parse_shebang(first_line: bytes) -> str:
    """Return the program that a script's first line names, `python3` for `#!/usr/bin/env python3`; empty for none."""
    words = first_line.removeprefix(b"#!").decode("utf-8", errors="replace").split()
    if not first_line.startswith(b"#!") or not words:
        return ""
    if PurePosixPath(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), words[0])


def module_files(module: str) -> Iterator[str]:
    """Yield the files any of which `python -m` would run."""
    path = module.replace(".", "/")
    yield from (f"{path}.py", f"{path}/__main__.py")
