"""The door that users come in by: a command line in, an exit code and lines out."""

from dataclasses import dataclass
from typing import Any

import pytest

from tfprov.cli.main import _run


@dataclass(frozen=True)
class Told:
    """How a command ended: its exit code, what it complained about, and what else it said."""

    code: int
    lines: tuple[str, ...] = ()
    out: str = ""


def tell(capsys: pytest.CaptureFixture[Any], *argv: str) -> Told:
    """Run tfprov with `argv` and return how it ended."""
    capsys.readouterr()
    code = _run(list(argv))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Told(code, tuple(err.splitlines()), out)
