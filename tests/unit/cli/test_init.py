"""`tfprov init`: what it writes from options and from answers, and what it never touches."""

import errno
import os
import pty
import select
import sys
import time
from codecs import getincrementaldecoder
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.command_output import CommandResult, run_command, write_files
from tests.support.full_disk import full_disk
from tests.support.paths import ROOT
from tests.support.waiting import until
from tfprov.cli.main import run
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.load import load
from tfprov.settings.role_settings import resolve_path


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_this_machine_and_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "init", "demo") == CommandResult(
        0, out="wrote demo/inventory.yml\nwrote demo/program/linear.py\nnext: cd demo && tfprov run\n"
    )
    _, roles = load(Path("demo/inventory.yml"))
    assert [task.name for task in assign_tasks(roles).tasks] == ["ps/0", "worker/0", "worker/1"]
    assert roles[0].values.command == ["python", "linear.py"]
    assert roles[0].values.runtime == "process"


@pytest.mark.parametrize(("name", "word"), [("-x", "./-x"), ("-", "./-"), ("my lab", "'my lab'")])
def test_the_next_command_enters_a_directory_of_any_name(
    name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_command(capsys, "init", "--", name)
    assert result.out.splitlines()[-1] == f"next: cd {word} && tfprov run"


def test_machines_over_ssh(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(
        capsys, "init", "--hosts", "trainer@node1, trainer@node2:2200 me@10.0.0.3", "--name", "no", "--schema"
    )
    assert result.code == 0
    assert result.out.splitlines()[-1] == "next: tfprov check"
    inventory, roles = load(Path("inventory.yml"))
    assert assign_tasks(roles).name == "no"
    assert (inventory.members("ps"), inventory.members("worker")) == (("node1",), ("node2", "10.0.0.3"))
    assert [(role.connection.user, role.connection.port) for role in roles] == [
        ("trainer", None),
        ("trainer", 2200),
        ("me", None),
    ]
    assert {role.values.runtime for role in roles} == {"docker"}
    assert Path("image/Dockerfile").read_text() == (ROOT / "images/train/Dockerfile").read_text()
    assert Path("inventory.yml").read_text().startswith("# yaml-language-server: $schema=inventory.schema.json\n")
    assert Path("inventory.schema.json").exists()


def test_one_machine_over_ssh_runs_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "init", "--hosts", "box").code == 0
    inventory, _ = load(Path("inventory.yml"))
    assert (inventory.members("ps"), inventory.members("worker")) == (("box",), ("box",))


def test_a_program_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(
        capsys, "init", "--command", "python 'my train.py' --rate=0.1 '{{ index }}'", "--code", "src", "--name", "own"
    )
    assert result.out.splitlines() == ["wrote inventory.yml", "put your program into src", "next: tfprov run"]
    _, roles = load(Path("inventory.yml"))
    assert roles[0].values.code == "src"
    assert "command: [python, my train.py, --rate=0.1, " in Path("inventory.yml").read_text()


def test_a_program_in_the_home_directory_is_written_where_the_inventory_reads_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    result = run_command(capsys, "init", "demo", "--code", "~/prog")
    assert result.out.splitlines()[1] == f"wrote {tmp_path}/home/prog/linear.py"
    _, roles = load(Path("demo/inventory.yml"))
    assert (roles[0].values.code, (resolve_path(roles[0], "code") / "linear.py").is_file()) == ("~/prog", True)
    assert not Path("demo/~").exists()
    own = run_command(capsys, "init", "own", "--code", "~/other", "--command", "python t.py")
    assert own.out.splitlines()[1] == f"put your program into {tmp_path}/home/other"


def test_the_home_of_another_user_is_refused_and_nothing_is_written_there(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "init", "--code", "~root/no/such/prog")
    assert (result.code, result.lines[0].startswith("--code: error: `code` must not begin with ")) == (2, True), result
    assert not list(Path().iterdir())


def test_a_program_of_ones_own_may_be_called_like_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    write_files({"src/linear.py": "mine"})
    result = run_command(capsys, "init", "--command", "python linear.py", "--code", "src", "--name", "own")
    assert result == CommandResult(0, out="wrote inventory.yml\nnext: tfprov run\n")
    assert Path("src/linear.py").read_text() == "mine"
    _, roles = load(Path("inventory.yml"))
    assert (roles[0].values.command, roles[0].values.flags) == (["python", "linear.py"], {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--command", "python {{"), "--command: error: not a valid template: "),
        (("--command", "python x.py", "--code", "~you"), "--code: error: `code` must not begin with "),
        (("--hosts", "fd00::1"), "--hosts: error: the address of fd00::1 must be "),
    ],
)
def test_an_option_that_makes_an_invalid_inventory_is_named_and_leaves_no_file(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_command(capsys, "init", *options)
    assert (result.code, len(result.lines), result.lines[0].startswith(message)) == (2, 1, True), result
    assert not list(Path().iterdir())


def test_an_error_in_a_file_that_was_there_is_named_in_it_and_the_file_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files({"group_vars/all.yml": "\n" * 200 + "tfprov: {nope: 1}\n"})
    (line,) = run_command(capsys, "init").lines
    assert line.startswith("group_vars/all.yml:201:10: error: unknown key `nope`")
    assert [path for path in Path().rglob("*") if path.is_file()] == [Path("group_vars/all.yml")]


WRONG = [
    (
        ["--name", "A_b"],
        "error: `A_b` is not a cluster name; use lower-case letters, digits and `-`, at most 40 of them",
    ),
    (["--hosts", "a/b"], "error: `a/b` is no machine; write `name`, `user@name` or `user@name:port`"),
    (["--hosts", "a:0"], "error: `a:0` is no machine; write `name`, `user@name` or `user@name:port`"),
    (["--hosts", "a,a"], "error: a is set twice; give every machine once"),
    (["--hosts", " "], "error: `--hosts` names no machine; for example `--hosts trainer@node1,trainer@node2`"),
    (["--hosts", "a", "--local"], "error: `--local` and `--hosts` exclude each other; give one of them"),
    (["--command", "'"], "error: `'`: no closing quotation; close the quote"),
    (["--command", ""], "error: an empty command; for example `python train.py`"),
]


@pytest.mark.parametrize(("argv", "expected"), WRONG, ids=[" ".join(argv) for argv, _ in WRONG])
def test_a_file_that_cannot_be_written(argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "init", *argv) == CommandResult(2, (expected,))
    assert not list(Path().iterdir())


def test_a_file_that_cannot_be_written_leaves_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("program").touch()
    assert "program/linear.py cannot be written: File exists" in run_command(capsys, "init").lines[0]
    with full_disk(10):
        assert "cannot be written: File too large" in run_command(capsys, "init", "other/one").lines[0]
    assert sorted(Path().rglob("*")) == [Path("program")]


@pytest.mark.parametrize("name", ["inventory.yml", "program/linear.py"])
def test_existing_files_are_never_changed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("mine")
    assert run_command(capsys, "init") == CommandResult(2, (f"error: {name} exists already; choose another directory",))
    assert Path(name).read_text() == "mine"
    assert [path.name for path in Path().rglob("*") if path.is_file()] == [Path(name).name]


def test_a_link_to_nowhere_is_not_written_through(capsys: pytest.CaptureFixture[str]) -> None:
    Path("inventory.yml").symlink_to("elsewhere.yml")
    assert run_command(capsys, "init").code == 2
    assert not Path("elsewhere.yml").exists()


# -- on a terminal ------------------------------------------------------------------------------------------------------


def run_on_terminal(*words: str) -> NoReturn:
    """Run a verb in this process, a fork, with the standard streams that the terminal gave it."""
    code = 1
    try:
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate(("r", "w", "w")))
        code = run(list(words))
    finally:
        sys.stdout.flush()
        os._exit(code)


def talk(argv: list[str], answers: list[tuple[str, str]], *, anew: bool = False) -> tuple[int, str]:
    """Run `tfprov init` on a terminal, give each answer when its question is there; return the exit code and all text.

    The process is a fork of this one, which has imported all of it, or with `anew` another Python.
    """
    process, terminal = pty.fork()
    if process == 0 and anew:
        os.execve(
            sys.executable, [sys.executable, "-m", "tfprov", "init", *argv], {**os.environ, "PYTHONPATH": str(ROOT)}
        )
    if process == 0:
        run_on_terminal("init", *argv)
    text, ahead, decoder = "", list(answers), getincrementaldecoder("utf-8")()
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            read = os.read(terminal, 4096)
        except OSError as error:
            if error.errno == errno.EIO:  # the other end is closed
                break
            raise
        if not read:
            break
        text += decoder.decode(read)
        if ahead and ahead[0][0] in text:
            question, answer = ahead.pop(0)
            text = text.replace(question, question.upper(), 1)
            until(lambda: _sleeps(process))  # a signal that comes before it reads is noticed only when it has read
            os.write(terminal, answer.encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), text


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_three_questions() -> None:
    code, text = talk(
        [],
        [("Name of the cluster", "night\n"), ("Machines", "me@a, me@b\n"), ("Command", "python t.py\n")],
        anew=True,
    )
    assert code == 0, text
    assert text.lower().count("]: ") == 3
    inventory, roles = load(Path("inventory.yml"))
    assert assign_tasks(roles).name == "night"
    assert tuple(inventory.hosts) == ("a", "b")
    assert roles[0].values.command == ["python", "t.py"]


def test_answers_may_be_left_to_the_defaults() -> None:
    code, text = talk(["fresh"], [("Name of the cluster", "\n"), ("Machines", "\n"), ("Command", "\n")])
    assert code == 0, text
    assert assign_tasks(load(Path("fresh/inventory.yml"))[1]).name == "fresh"
    assert Path("fresh/program/linear.py").exists()


def test_an_invalid_answer_is_requested_again() -> None:
    answers = [
        ("Name of the cluster", "No Name\n"),
        ("Name of the cluster", "name\n"),
        ("Machines", "\n"),
        ("Command", "\n"),
    ]
    code, text = talk([], answers)
    assert code == 0, text
    assert "`No Name` is not a cluster name" in text
    assert assign_tasks(load(Path("inventory.yml"))[1]).name == "name"


def test_options_replace_their_questions() -> None:
    code, text = talk(["--name", "a", "--local"], [("Command", "\n")])
    assert (code, "Name of" in text, "Machines" in text) == (0, False, False)
    code, text = talk(["other", "--yes"], [])
    assert (code, "]:" in text) == (0, False)


def test_a_question_left_with_control_c_writes_nothing() -> None:
    code, text = talk([], [("Name of the cluster", "\x03")])
    assert code == 130, text
    assert not list(Path().iterdir())
