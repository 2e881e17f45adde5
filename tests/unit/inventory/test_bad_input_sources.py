"""Problems of sources other than one YAML file have the position of their cause, or the name of its option.

Each file in tests/cases/bad_sources holds several cases. A case begins with `== NAME`; files follow behind `-- PATH`, and
behind `$ tfprov` the command line with all that comes back. A file that begins with `#!` may be executed.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, CommandResult, run_command
from tests.support.paths import CASES

SOURCES = CASES / "bad_sources"


@dataclass
class Case:
    name: str
    files: dict[str, list[str]] = field(default_factory=dict)
    line: str = ""
    lines: list[str] = field(default_factory=list)


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases in the file at `path`."""
    case: Case | None = None
    into: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            if case is not None:
                yield case
            case, into = Case(f"{path.stem}: {line.removeprefix('== ')}"), []
        elif case is not None and line.startswith("-- "):
            into = case.files.setdefault(line.removeprefix("-- "), [])
        elif case is not None and line.startswith("$ tfprov "):
            case.line, into = line.removeprefix("$ tfprov "), case.lines
        elif line or into is not getattr(case, "lines", None):
            into.append(line)
    if case is not None:
        yield case


ALL = [case for path in sorted(SOURCES.glob("*.txt")) for case in read_cases(path)]


def write_case_files(case: Case, directory: Path) -> None:
    """Write the files of a case."""
    for name, lines in {"inventory.yml": SMALLEST.splitlines(), **case.files}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o755 if lines and lines[0].startswith("#!") else 0o644)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_bad_source_prints_all_its_problems(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    write_case_files(case, tmp_path)
    assert run_command(capsys, *shlex.split(case.line)) == CommandResult(2, tuple(case.lines))


def test_the_case_files_have_bad_sources() -> None:
    assert len(ALL) >= 100
    assert len({case.name for case in ALL}) == len(ALL)
    for case in ALL:
        assert case.lines, case.name
        assert all(": error: " in line or line.startswith("error: ") for line in case.lines), case.name
