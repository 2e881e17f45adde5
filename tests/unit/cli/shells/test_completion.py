"""Completion offers values from the inventory, quickly and quietly; its installation keeps start-up files."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.support.command_output import SMALLEST, run_command, write_files
from tests.support.paths import ROOT
from tfprov.cli.main import tfprov
from tfprov.cli.shells.answer import Progress
from tfprov.cli.shells.completion import Installation, install, installation, script, shell_of
from tfprov.errors import Usage


def offered(words: str) -> list[str]:
    """Return what is offered for the last of `words`, as zsh gets it, without the lines of help."""
    *before, incomplete = words.split(" ")
    items = ShellComplete(tfprov, {}, "tfprov", "X").get_completions(before, incomplete)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in items]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)
    write_files({"inventory.yml": SMALLEST, "more/vars.yml": ""})
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sta", ["status"]),
        ("inventory re", ["remove-host"]),
        ("help inventory mo", ["move-host"]),
        ("help ru", ["run", "runs"]),
        ("logs ", ["ps/0", "worker/0"]),
        ("logs worker/0 p", ["ps/0"]),
        ("exec w", ["worker/0"]),
        ("inventory explain l", ["localhost"]),
        ("status -l worker,lo", ["worker,localhost"]),
        ("status -l !w", ["!worker"]),
        ("render kub", ["kubernetes", "kubeflow-tfjob", "kubeflow-trainer"][:1]),
        ("render kubernetes --set imag", ["image="]),
        ("plan -i x", ["<file>"]),
        ("plan -e @more/", ["@more/vars.yml"]),
        ("play r", ["run"]),
        ("wait --for s", ["serving"]),
        ("--color n", ["never"]),
        ("run --color al", ["always"]),
        ("gather --acc", ["--accept-new"]),
    ],
)
def test_values(words: str, expected: list[str]) -> None:
    candidates = offered(words)
    assert [one for one in candidates if one in expected] == expected
    assert not expected or len(candidates) == len(expected) or words.startswith("render")


def answered(words: str, cwd: Path, env: Mapping[str, str] | None = None) -> tuple[str, str, int]:
    """Have a process answer as for bash; return its two outputs and its exit code."""
    asked = {"_TFPROV_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-m", "tfprov"]  # a warm interpreter would import TensorFlow for the sake of these few
    done = subprocess.run(
        command, env={**os.environ, **asked, **(env or {})}, cwd=cwd, text=True, capture_output=True, check=False
    )
    return done.stdout, done.stderr, done.returncode


def test_a_broken_inventory_and_one_that_is_not_there_offer_nothing_and_print_nothing(work: Path) -> None:
    (work / "inventory.yml").write_text("all: [")
    assert answered("tfprov logs ", work) == ("", "", 0)
    assert answered("tfprov logs -i gone.yml ", work) == ("", "", 0)
    assert answered("tfprov frobnicate ", work)[1:] == ("", 0)


def test_the_time_limit_ends_with_the_answer(work: Path) -> None:
    program = (
        "import click, signal; from tfprov.cli.shells.answer import answer; "
        "answer(click.Command('x'), 'bash_complete'); print(signal.getitimer(signal.ITIMER_REAL))"
    )
    env = {**os.environ, "COMP_WORDS": "tfprov x", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=work, text=True, capture_output=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "(0.0, 0.0)"


def test_an_inventory_that_cannot_be_read_in_time_blocks_no_prompt(work: Path) -> None:
    (work / "inventory.yml").unlink()
    os.mkfifo(work / "inventory.yml")
    assert answered("tfprov logs -e @inventory.yml ", work) == ("", "", 0)


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        pytest.param([0.3, 0.4, 0.9], [True, True], id="a busy machine"),
        pytest.param([0.3, 0.4, 0.405], [True, False], id="a stalled file"),
        pytest.param([0.3, 4.9, 6.8], [True, False], id="without an end"),
    ],
)
def test_an_answer_is_given_up_once_nobody_works_on_it(spent: list[float], expected: list[bool]) -> None:
    progress = Progress(iter(spent).__next__)
    assert [progress.goes_on() for _ in expected] == expected


def test_an_inventory_script_is_not_run(work: Path) -> None:
    script = work / "inventory.yml"
    script.write_text("#!/bin/sh\ntouch was-run\necho '{}'\n")
    script.chmod(0o755)
    assert answered("tfprov logs ", work) == ("", "", 0)
    assert not (work / "was-run").exists()


def test_a_vault_is_not_asked_for_its_password(work: Path) -> None:
    (work / "inventory.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3131\n")
    assert answered("tfprov logs ", work) == ("", "", 0)


def test_installing_keeps_the_start_up_file_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    dotfiles, home = tmp_path / "dotfiles", tmp_path / "home o'neil"
    dotfiles.mkdir()
    home.mkdir()
    (dotfiles / "bashrc").write_text("alias a=b")
    (dotfiles / "bashrc").chmod(0o600)
    (home / ".bashrc").symlink_to(dotfiles / "bashrc")
    where = installation("bash", home, {})
    assert install("bash", where) == [home / ".local/share/tfprov/completion.bash", home / ".bashrc"]
    assert (home / ".bashrc").is_symlink()
    text = (dotfiles / "bashrc").read_text()
    assert text == f"alias a=b\n{where.line}\n"
    assert (dotfiles / "bashrc").stat().st_mode & 0o777 == 0o600
    assert install("bash", where) == []
    moved = Installation(tmp_path / "elsewhere", home / ".bashrc")
    assert install("bash", moved) == [tmp_path / "elsewhere", home / ".bashrc"]
    assert (dotfiles / "bashrc").read_text() == f"alias a=b\n{moved.line}\n", "an older line of tfprov's is replaced"


def test_files_are_where_each_shell_looks(tmp_path: Path) -> None:
    fish = installation("fish", tmp_path, {"XDG_CONFIG_HOME": "/c"})
    assert fish == Installation(Path("/c/fish/completions/tfprov.fish"))
    zsh = installation("zsh", tmp_path, {"ZDOTDIR": "/z", "XDG_DATA_HOME": "/d"})
    assert zsh == Installation(Path("/d/tfprov/completion.zsh"), Path("/z/.zshrc"))
    assert "compinit" in script("zsh")


def test_other_shells_are_refused() -> None:
    assert shell_of(None, {"SHELL": "/usr/bin/zsh"}) == "zsh"
    with pytest.raises(Usage, match="no completion for the shell `tcsh`; name one of them: bash, zsh, fish"):
        shell_of(None, {"SHELL": "/bin/tcsh"})
    with pytest.raises(Usage, match="SHELL names no shell"):
        shell_of(None, {})


def test_a_home_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    result = run_command(capsys, "completion", "install", "bash")
    assert result.code == 2
    assert len(result.lines) == 1
    assert "cannot write" in result.lines[0]
    assert "tfprov completion show bash" in result.lines[0]


def test_a_start_up_file_that_must_not_be_replaced_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (tmp_path / ".bashrc").write_text("# mine\n")
    (tmp_path / "dotfiles").hardlink_to(tmp_path / ".bashrc")
    result = run_command(capsys, "completion", "install", "bash")
    assert result.code == 2
    assert result.lines[0].startswith(f"error: cannot write {tmp_path}/.bashrc: it has 2 names (hard links)")


def test_help_of_verbs_and_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "help", "gather").out == run_command(capsys, "gather", "--help").out
    assert run_command(capsys, "help", "inventory", "set").out == run_command(capsys, "inventory", "set", "-h").out
    assert run_command(capsys, "help").out == run_command(capsys, "--help").out == run_command(capsys).out
    assert run_command(capsys, "help", "gahter").lines == ("error: no verb `gahter`; did you mean `gather`?",)
    assert run_command(capsys, "help", "run", "x").code == 2


ANSWERS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from click.shell_completion import shell_complete
from tfprov.cli.main import tfprov
shell_complete(tfprov, {{}}, "tfprov", "_TFPROV_COMPLETE", "bash_complete")
"""
"""Answers as `tfprov` does, but for its time limit: a slow machine gets the same answer."""
CALLS = """
. ./completion.bash
registered=$(complete -p tfprov)
function=${registered##*-F }
${function% tfprov} "$PWD/tfprov"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Calls the function that bash calls at a TAB, and prints what it has left for bash."""


def bash_words(line: str) -> list[str]:
    """Return the words of a line as bash has them in COMP_WORDS: characters of COMP_WORDBREAKS are words, too."""
    words = re.findall(r"""[:@=]+|(?:"[^"]*"?|'[^']*'?|\\.|[^\s:@=])+""", line)
    return [*words, ""] if line.endswith(" ") else words


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("status -l ps:wor", "", ["worker"]),
        ("status -l ps:wor", ",lo -v", ["worker"]),
        ("status -l ps:", "", ["localhost", "all", "ps", "worker", "ungrouped"]),
        ("status --limit=ps:!wor", "", ["!worker"]),
        ("status -l 'ps:wor", "", ["ps:worker"]),
        ("plan -e @more/va", "", ["@more/vars.yml"]),
        ('plan -e @"more/va', "", ["more/vars.yml"]),
        ("--color=ne", "", ["never"]),
        ("logs  wor", "", ["worker/0"]),
        ("logs ps/0 ", "", ["ps/0", "worker/0"]),
    ],
)
def test_bash_completes_words_with_characters_at_which_it_splits_them(
    before: str, after: str, expected: list[str], work: Path
) -> None:
    (work / "completion.bash").write_text(script("bash"))
    (work / "tfprov").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(ANSWERS)}\n")
    (work / "tfprov").chmod(0o755)
    line = f"tfprov {before}"
    words = bash_words(line + after)
    variables = [
        f"COMP_WORDS=({' '.join(map(shlex.quote, words))})",
        f"COMP_CWORD={len(bash_words(line)) - 1}",
        f"COMP_LINE={shlex.quote(line + after)}",
        f"COMP_POINT={len(line)}",
        r"""COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'""",
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join([*variables, CALLS])], cwd=work, text=True, capture_output=True, check=True
    )
    assert (done.stderr, sorted(done.stdout.split())) == ("", sorted(expected))
