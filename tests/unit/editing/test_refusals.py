"""Refused edits print one line with position, reason and fix, and leave the file as it is."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_output import CommandResult, run_command
from tests.support.paths import CASES
from tests.support.vaults import encrypt

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
    """Yield each command line of the transcript, and the line that it prints."""
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


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[line for line, _ in REFUSED])
def test_an_edit_that_is_refused(line: str, message: str, inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "inventory", *shlex.split(line))
    assert result == CommandResult(2, (message,))
    assert inventory.read_text() == GOOD
    assert [path.name for path in Path().iterdir()] == ["inventory.yml"]


INVALID_AFTER = [
    ("set tfprov.port 70000", "9:7", "`port` must be at most 65535, not 70000; for example `port: 2222`"),
    ("set tfprov.prot 2222", "10:7", "unknown key `prot`; did you mean `port`?"),
    (
        "set --group worker tfprov.runtime prosess",
        "26:11",
        "`runtime` must be `docker` or `process`, not `prosess`; did you mean `process`?",
    ),
    ("remove-host node0", "11:5", "the group `ps` has no hosts; add one, or remove the group"),
]


@pytest.mark.parametrize(("line", "place", "message"), INVALID_AFTER, ids=[line for line, _, _ in INVALID_AFTER])
def test_an_edit_that_makes_the_inventory_invalid_is_refused(
    line: str, place: str, message: str, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_command(capsys, "inventory", *shlex.split(line))
    assert result == CommandResult(2, (f"inventory.yml:{place}: error: {message} {AFTER}",))
    assert inventory.read_text() == GOOD


def test_an_invalid_inventory_can_be_fixed_by_edits(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invalid = GOOD.replace("port: 2222", "port: 222222").replace("flags: {a: 1}", "flogs: {a: 1}")
    inventory.write_text(invalid)
    result = run_command(capsys, "inventory", "set", "tfprov.port", "2222")
    assert (result.code, result.lines) == (0, ())
    assert result.out.splitlines() == [
        "set tfprov.port of group all (inventory.yml:9)",
        "note: the inventory still has 1 problem; `tfprov plan` shows it",
    ]
    assert run_command(capsys, "inventory", "set", "tfprov.prt", "1").code == 2
    assert run_command(capsys, "inventory", "unset", "--group", "ps", "tfprov.flogs").code == 0
    assert run_command(capsys, "inventory", "set", "--group", "ps", "tfprov.flags", "{a: 1}").code == 0
    assert "note" not in run_command(capsys, "inventory", "add-host", "more", "-g", "worker").out


def test_hosts_of_an_inventory_that_cannot_be_read_whole_are_edited(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory.write_text(f"{GOOD}    unordered:\n      hosts:\n        n[3:1]:\n")
    note = "note: the inventory still has 1 problem; `tfprov plan` shows it\n"
    out = f"moved node0 to node10 in ps (inventory.yml:13)\n{note}"
    assert run_command(capsys, "inventory", "move-host", "node0", "node10") == CommandResult(0, (), out)
    out = "moved n[3:1] to n[1:3] in unordered (inventory.yml:32)\n"
    assert run_command(capsys, "inventory", "move-host", "n[3:1]", "n[1:3]") == CommandResult(0, (), out)


def test_a_file_that_is_not_yaml_is_not_edited(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text("all: [\n")
    result = run_command(capsys, "inventory", "set", "tfprov.port", "1")
    assert result == CommandResult(2, ("inventory.yml:1:7: error: the file ends within brackets; close them",))
    assert inventory.read_text() == "all: [\n"


def test_a_missing_file_is_not_edited(capsys: pytest.CaptureFixture[str]) -> None:
    line = "gone.yml: error: no such file; check the path after -i"
    assert run_command(capsys, "inventory", "set", "a", "1", "-i", "gone.yml") == CommandResult(2, (line,))


WINS = "is set here, too, and this wins; nothing was changed"
HIDDEN = f"{WINS}; change it here; `ansible-vault edit` opens an encrypted file"


def test_a_value_that_an_encrypted_file_hides_is_not_set(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pass").write_text("open sesame\n")
    for directory, owner, mark in (("group_vars", "worker", ""), ("host_vars", "node0", "\ufeff")):
        Path(directory).mkdir()
        Path(directory, f"{owner}.yml").write_text(mark + encrypt("tfprov: {port: 2300}\n")[0])
    before = inventory.read_text()
    password = ("--vault-password-file", "pass")
    for place, file in (("--group=worker", "group_vars/worker.yml"), ("--host=node0", "host_vars/node0.yml")):
        result = run_command(capsys, "inventory", "set", place, "tfprov.port", "2400", *password)
        assert inventory.read_text() == before
        assert result == CommandResult(2, (f"{file}:1:16: error: `tfprov.port` {HIDDEN}",))
    assert run_command(capsys, "inventory", "set", "--group", "worker", "tfprov.stop_grace", "9", *password).code == 0
    assert run_command(capsys, "inventory", "set", "tfprov.port", "2400", *password).code == 0


def test_a_value_that_a_later_ini_file_hides_is_not_set(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.ini").write_text("[worker:vars]\nnote=1\n")
    before = inventory.read_text()
    sources = ("-i", "inventory.yml", "-i", "more.ini")
    result = run_command(capsys, "inventory", "set", "--group", "worker", "note", "2", *sources)
    assert inventory.read_text() == before
    assert result == CommandResult(2, (f"more.ini:2:6: error: `note` {HIDDEN}",))
    assert (
        run_command(capsys, "inventory", "set", "--group", "worker", "note", "2", *sources[2:], *sources[:2]).code == 0
    )


def test_a_value_that_an_encrypted_file_hides_is_not_removed(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pass").write_text("open sesame\n")
    Path("group_vars").mkdir()
    Path("group_vars/all.yml").write_text(encrypt("tfprov: {port: 2300}\n")[0])
    command = ("inventory", "unset", "tfprov.port", "--vault-password-file", "pass")
    assert run_command(capsys, *command) == CommandResult(
        2, (f"group_vars/all.yml:1:16: error: `tfprov.port` {HIDDEN}",)
    )
    assert inventory.read_text() == GOOD


def test_a_value_below_a_variable_that_another_file_replaces_is_not_edited(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("group_vars").mkdir()
    Path("group_vars/all.yml").write_text("common: {nice: 1}\n")
    for edit in (("set", "common.pids", "200"), ("unset", "common.pids")):
        result = run_command(capsys, "inventory", *edit)
        assert result == CommandResult(2, (f"group_vars/all.yml:1:9: error: `common` {WINS}; change it here",))
        assert inventory.read_text() == GOOD


NO_HOST = "is set here, too, and no host of `worker` would have the new value; nothing was changed"


def test_a_value_that_no_host_of_its_group_would_have_is_not_set(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def set_port(group: str = "worker") -> CommandResult:
        return run_command(capsys, "inventory", "set", "--group", group, "tfprov.port", "2400")

    inventory.write_text(
        GOOD.replace("    spare:", "      vars: {}\n    fast:\n      children: {worker: }\n    spare:")
    )
    before = inventory.read_text()
    Path("group_vars/all").mkdir(parents=True)
    Path("group_vars/all/ports.yml").write_text("tfprov: {port: 2300}\n")
    for own, name in ((None, "worker.yml"), ("note: 1\n", "worker.yaml")):
        if own:
            Path("group_vars", name).write_text(own)
        message = f"group_vars/all/ports.yml:1:16: error: `tfprov.port` {NO_HOST}; write it into group_vars/{name}"
        assert set_port() == CommandResult(2, (message,))
    Path("group_vars/fast.yml").write_text("tfprov: {port: 2301}\n")
    message = f"group_vars/fast.yml:1:16: error: `tfprov.port` {NO_HOST}; write it into group_vars/worker.yaml"
    assert set_port() == CommandResult(2, (message,))
    Path("group_vars/worker.yaml").unlink()
    Path("group_vars/fast.yml").rename("group_vars/worker.yml")
    message = f"group_vars/worker.yml:1:16: error: `tfprov.port` {NO_HOST.replace('worker', 'fast')}; change it here"
    assert set_port("fast") == CommandResult(2, (message,))
    assert inventory.read_text() == before


def test_a_value_that_one_role_of_a_host_has_is_set(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text(GOOD.replace("    worker:\n      hosts:\n", "    worker:\n      hosts:\n        node0:\n"))
    Path("group_vars").mkdir()
    Path("group_vars/worker.yml").write_text("tfprov: {port: 2300}\n")
    assert run_command(capsys, "inventory", "set", "--group", "ps", "tfprov.port", "2400").code == 0
    extra = ("-e", "tfprov.port=2500")
    assert run_command(capsys, "inventory", "set", "--group", "ps", "tfprov.port", "2401", *extra).code == 0
