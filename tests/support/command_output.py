"""Run a tfprov command in this process and capture its output."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tfprov.cli.main import run

SMALLEST = """\
all:
  vars:
    tfprov: {cluster: linear, command: [python, linear.py]}
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""
"""A minimal valid inventory."""


def write_files(files: Mapping[str, str]) -> None:
    """Write files below the working directory, by their path."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclass(frozen=True)
class CommandResult:
    """The exit code of a command, its lines on stderr, and its stdout."""

    code: int
    lines: tuple[str, ...] = ()
    out: str = ""


def run_command(capsys: pytest.CaptureFixture[Any], *argv: str) -> CommandResult:
    """Run tfprov with `argv` and return its result."""
    capsys.readouterr()
    code = run(list(argv))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return CommandResult(code, tuple(err.splitlines()), out)
