"""Command lines that cannot mean anything: one line, what to do about it, exit code 2, and nothing is changed."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, CommandResult, run_command
from tests.support.paths import CASES
from tests.support.permissions import forbidden
from tfprov.engine.assemble import assemble
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.context import Definition
from tfprov.engine.events import Quiet
from tfprov.engine.observe import observe
from tfprov.errors import GatherError

TRANSCRIPT = CASES / "bad_commands.txt"
VARIABLE = "write `-e name=value`, `-e '{name: value}'` or `-e @file.yml`"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work beside a good inventory and a few files that are none."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)
    Path("inventory.yml").write_text(SMALLEST)
    Path("list.yml").write_text("- a\n")
    Path("empty.yml").write_text("")
    Path("folder").mkdir()
    return tmp_path


def everything(directory: Path) -> dict[str, bytes]:
    """Return all files below `directory` but the lock, which holds nothing once nobody holds it."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def transcript() -> Iterator[tuple[str, str]]:
    """Yield each command line of the transcript, and the line that comes back."""
    lines = iter(TRANSCRIPT.read_text().splitlines())
    for line in lines:
        if line.startswith("$ tfprov"):
            yield line.removeprefix("$ tfprov"), next(lines)


@pytest.mark.parametrize(("line", "expected"), list(transcript()))
def test_a_bad_command_line_is_reported_in_one_line(
    line: str, expected: str, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(there)
    assert run_command(capsys, *shlex.split(line)) == CommandResult(2, (expected,))
    assert everything(there) == before


UNTYPABLE: Sequence[tuple[tuple[str, ...], str]] = [
    (("up", "-l", "a\x1b"), "error: no host or group matches `a\\x1b`; see `hosts:` and `children:` in the inventory"),
    (("up", "-i", "a\nb"), "a\\nb: error: no such file; check the path after -i"),
    (("plan", "-e", "\x1b[31m"), f"-e: error: `\\x1b[31m` is not a variable; {VARIABLE}"),
    (("plan", "-e", "{a: \udcff}"), "-e:1:5: error: not UTF-8 text; write it as UTF-8"),
    (("plan", "-e", "a" * 100_000), f"-e: error: `{'a' * 57}...` is not a variable; {VARIABLE}"),
    (("plan", "-e", f"a{'.a' * 2000}=1"), f"-e: error: `{'a.' * 28}a...` is not a variable; {VARIABLE}"),
]


@pytest.mark.parametrize(("argv", "expected"), UNTYPABLE, ids=range(len(UNTYPABLE)))
def test_what_could_not_be_shown_as_it_is(
    argv: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(capsys, *argv) == CommandResult(2, (expected,))


CLICK = [
    "up --nope", "-e a=1 up", "up extra", "up --forks 0", "up -f many", "up -f", "up -f 1001", "up -l", "up -i", "exec",
    "exec worker/0", "exec worker/0 --", "logs -n -1", "logs -n x", "wait --timeout 0", "wait --timeout -1",
    "wait --timeout soon", "wait --for ever", "gather -l ps", "down --discrad", "play", "play up -t", "status nosuch",
    "init inventory.yml", "init a b",
]  # fmt: skip


@pytest.mark.parametrize("line", CLICK)
def test_errors_of_click_are_one_line(line: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(there)
    result = run_command(capsys, *line.split())
    assert (result.code, len(result.lines), result.out) == (2, 1, "")
    assert result.lines[0].startswith("error: ")
    assert "; " in result.lines[0]
    assert everything(there) == before


def test_there_are_bad_commands() -> None:
    assert len([*transcript(), *CLICK]) >= 60


def test_without_a_verb_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("inventory",), ("records",)):
        result = run_command(capsys, *words)
        assert (result.code, result.lines) == (0, ())
        assert result.out.startswith(f"Usage: {' '.join(('tfprov', *words))} ")


def test_nothing_to_take_down_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "down") == CommandResult(0, out="nothing to do: linear is not there\n")


def test_all_bad_options_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "plan", "-e", "a", "-e", "@nosuch.yml", "-i", "gone.yml").lines == (
        f"-e: error: `a` is not a variable; {VARIABLE}",
        "gone.yml: error: no such file; check the path after -i",
        "nosuch.yml: error: no such file; check the path after -e @",
    )


def test_an_inventory_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TFPROV_INVENTORY", "gone.yml")
    line = "gone.yml: error: no such file; check the path after -i"
    assert run_command(capsys, "plan") == CommandResult(2, (line,))
    monkeypatch.setenv("TFPROV_INVENTORY", " ")
    line = "error: `$TFPROV_INVENTORY` names no file; for example `-i inventory.yml`"
    assert run_command(capsys, "plan") == CommandResult(2, (line,))


def test_a_directory_without_an_inventory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir("folder")
    line = "inventory.yml: error: no such file; write one with `tfprov init`, or give its path with -i"
    assert run_command(capsys, "plan") == CommandResult(2, (line,))


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(path: Path, mode: str = "r") -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)  # root, which tests often run as, may read everything
    line = "inventory.yml: error: permission denied; give a readable file"
    assert run_command(capsys, "plan") == CommandResult(2, (line,))


def test_a_gather_never_mixes_clusters(there: Path) -> None:
    target = there / "work" / "checkpoints" / "linear"
    target.mkdir(parents=True)
    (target / "manifest.json").write_text(json.dumps({"cluster": "other", "run": "1", "checkpoints": [], "files": {}}))
    assert gathered() == (
        "checkpoints/linear holds checkpoints of cluster other, not linear; set another `checkpoints.to`"
    )


def test_a_gather_never_takes_a_directory_that_holds_something_else(there: Path) -> None:
    target = there / "work" / "checkpoints" / "linear"
    target.mkdir(parents=True)
    (target / "thesis.tex").write_text("")
    assert gathered() == (
        "checkpoints/linear holds files that no gather put there; move it away, or set `checkpoints.to`"
    )


def gathered() -> str:
    """Return what stops a gather."""
    context = assemble(Definition.load(Path("inventory.yml")), Quiet())
    with pytest.raises(GatherError) as caught:
        gather(context, lambda prefixes: {}, observe(context))
    return str(caught.value)


@pytest.mark.parametrize("line", ["init --yes", "init --yes lab", "run --detach -i INVENTORY"])
def test_a_verb_that_needs_a_removed_working_directory_begins_nothing(
    line: str, there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = there / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    before = everything(there)
    words = line.replace("INVENTORY", str(there / "work" / "inventory.yml")).split()
    error = "error: the working directory was removed; change to another one"
    assert run_command(capsys, *words) == CommandResult(2, (error,))
    assert everything(there) == before


@pytest.mark.parametrize(
    "words", ["status", "down", "gather", "wait", "logs worker/0", "exec worker/0 ls", "cp worker/0:a b", "tensorboard"]
)
def test_a_verb_that_starts_nothing_does_without_the_code(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = words.split()
    result = run_command(capsys, verb, "-e", "tfprov.code=nowhere", "-e", "tfprov.env_file=nowhere", *rest)
    assert "nowhere" not in "\n".join(result.lines)


@pytest.mark.parametrize("words", ["plan", "up", "run", "check", "play down.yml"])
def test_a_verb_that_may_start_something_needs_the_code(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("down.yml").write_text("- hosts: all\n  tasks: [stop]\n")
    verb, *rest = words.split()
    result = run_command(capsys, verb, "-e", "tfprov.code=nowhere", *rest)
    assert result.code == 2
    assert result.lines[-1].startswith("-e tfprov.code: error: `code`: nowhere does not exist")


def test_a_state_directory_that_may_not_be_read_is_an_error_with_a_fix(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = there / "XDG_STATE_HOME"
    state.mkdir()
    with forbidden(state):
        result = run_command(capsys, "status")
    assert result == CommandResult(1, (f"error: Permission denied: {state}/tfprov; give this user access to it",))
