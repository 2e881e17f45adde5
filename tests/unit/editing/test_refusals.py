"""Edits that are refused: one line that says where, why and what to do, and the file is what it was."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_output import CommandResult, run_command
from tests.support.paths import CASES

GOOD = """\
all:
  vars:
    common: &common {pids: 100}
    words: &words [python, train.py]
    tfprov:
      cluster: lab
      image: {name: train}
      command: *words
      port: 2222
  children:
    ps:
      hosts:
        node0:
      vars:
        tfprov:
          <<: *common
          flags: {a: 1}
    worker:
      hosts:
        node[1:9]:
        rack-a: &rack
          ansible_port: 22
        rack-b: *rack
    spare:
      hosts: one
    more:
      hosts: &more {m1: }
    again:
      hosts: *more
"""
AFTER = "(after the edit, which was not made)"
TRANSCRIPT = CASES / "bad_edits.txt"


def transcript() -> Iterator[tuple[str, str]]:
    """Yield each command line of the transcript, and the line that comes back."""
    lines = iter(TRANSCRIPT.read_text().splitlines())
    for line in lines:
        if line.startswith("$ tfprov inventory "):
            yield line.removeprefix("$ tfprov inventory "), next(lines)


REFUSED = list(transcript())


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)
    path = Path("inventory.yml")
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line for line, _ in REFUSED])
def test_an_edit_that_is_refused(line: str, said: str, inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = run_command(capsys, "inventory", *shlex.split(line))
    assert told == CommandResult(2, (said,))
    assert inventory.read_text() == GOOD
    assert [path.name for path in Path().iterdir()] == ["inventory.yml"]


WRONG_THEN = [
    ("set tfprov.port 70000", 9, "`port` must be at most 65535"),
    ("set tfprov.prot 2222", 10, "did you mean `port`?"),
    ("set --group worker tfprov.runtime prosess", 26, "`process`"),
    ("remove-host node0", 11, "`ps` has no hosts"),
]


@pytest.mark.parametrize(("line", "number", "said"), WRONG_THEN, ids=[line for line, _, _ in WRONG_THEN])
def test_an_edit_that_would_not_validate(
    line: str, number: int, said: str, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run_command(capsys, "inventory", *shlex.split(line))
    assert told.code == 2
    assert told.lines[0].startswith(f"inventory.yml:{number}:")
    assert said in told.lines[0]
    assert all(line.endswith(AFTER) for line in told.lines)
    assert inventory.read_text() == GOOD


def test_an_inventory_that_is_wrong_can_be_mended(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = GOOD.replace("port: 2222", "port: 222222").replace("flags: {a: 1}", "flogs: {a: 1}")
    inventory.write_text(wrong)
    told = run_command(capsys, "inventory", "set", "tfprov.port", "2222")
    assert (told.code, told.lines) == (0, ())
    assert told.out.splitlines() == [
        "set tfprov.port of group all (inventory.yml:9)",
        "note: the inventory still has 1 problem; `tfprov plan` tells it",
    ]
    assert run_command(capsys, "inventory", "set", "tfprov.prt", "1").code == 2
    assert run_command(capsys, "inventory", "unset", "--group", "ps", "tfprov.flogs").code == 0
    assert run_command(capsys, "inventory", "set", "--group", "ps", "tfprov.flags", "{a: 1}").code == 0
    assert "note" not in run_command(capsys, "inventory", "add-host", "more", "-g", "worker").out


def test_a_file_that_is_no_yaml(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text("all: [\n")
    told = run_command(capsys, "inventory", "set", "tfprov.port", "1")
    assert told.code == 2
    assert told.lines[0].startswith("inventory.yml:1:")
    assert inventory.read_text() == "all: [\n"


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = "gone.yml: error: no such file; check the path given with -i"
    assert run_command(capsys, "inventory", "set", "a", "1", "-i", "gone.yml") == CommandResult(2, (line,))
