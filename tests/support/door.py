"""The door that users come in by: a command line in, an exit code and lines out."""

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
"""An inventory in which nothing is wrong."""


def write_files(files: Mapping[str, str]) -> None:
    """Write files below the working directory, by their path."""
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclass(frozen=True)
class Told:
    """How a command ended: its exit code, what it complained about, and what else it said."""

    code: int
    lines: tuple[str, ...] = ()
    out: str = ""


def tell(capsys: pytest.CaptureFixture[Any], *argv: str) -> Told:
    """Run tfprov with `argv` and return how it ended."""
    capsys.readouterr()
    code = run(list(argv))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Told(code, tuple(err.splitlines()), out)
