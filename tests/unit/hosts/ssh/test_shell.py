"""Command lines: the login shell passes every argument unchanged."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.waiting import LONG
from tfprov.hosts.ssh.shell import command_line, held_command, quote

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
SHELLS = ("sh", "bash")


def login_shell(line: str, stdin: bytes = b"", shell: str = "sh") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([shell, "-c", line], input=stdin, capture_output=True, check=False)


@examples(60)
@given(st.lists(WORDS, max_size=6), st.sampled_from(SHELLS))
def test_a_shell_passes_every_argument_as_it_is(words: list[str], shell: str) -> None:
    completed = login_shell(command_line(["printf", "%s\\0", "-", *words]), shell=shell)
    assert completed.stdout.split(b"\0")[1:-1] == [word.encode() for word in words]
    assert (completed.returncode, completed.stderr) == (0, b"")


BACKSLASHES = ["\\", "\\\\", "a\\b", "\\d+\\.tfrecord", "it's \\'", "'\\", "$HOME\\n", "~\\", "\\\n", "", "\\ ", '"\\"']


def test_backslashes_are_outside_of_quotes_where_every_shell_has_them_alike() -> None:
    assert [quote(word) for word in ("", "a", "\\", "a\\b c", "\\\\")] == ["''", "a", "\\\\", "a\\\\'b c'", "\\\\\\\\"]
    completed = login_shell(command_line(["printf", "%s\\0", "-", *BACKSLASHES]))
    assert completed.stdout.split(b"\0")[1:-1] == [word.encode() for word in BACKSLASHES]


@examples(30)
@given(st.sampled_from(["-", "if", "{", "X=1", "~", "$HOME", "!", "#", "a;b"]), WORDS)
def test_the_program_name_is_never_an_option_a_keyword_or_an_assignment(start: str, word: str) -> None:
    for name in (start, f"{start}{word}"):
        completed = login_shell(command_line([name, "x"]))
        assert completed.returncode in (126, 127), completed


@examples(20)
@given(st.lists(WORDS, max_size=4))
def test_sudo_gets_the_same_arguments_after_a_double_dash(words: list[str]) -> None:
    assert shlex.split(command_line(["tool", *words], sudo=True))[5:] == ["sudo", "-n", "--", "tool", *words]


def test_exit_codes_and_signals_of_a_command_line() -> None:
    assert login_shell(command_line(["sh", "-c", "exit 7"])).returncode == 7
    assert login_shell(command_line(["sh", "-c", "kill -TERM $$"])).returncode == 143


@pytest.mark.parametrize("argv", [[], ["a\0b"], ["a", "\0"]])
def test_empty_commands_and_null_bytes_are_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="null byte"):
        command_line(argv)


@examples(20)
@given(st.lists(WORDS, min_size=1, max_size=4))
def test_a_held_command_gets_its_arguments_and_no_input(words: list[str]) -> None:
    line = command_line(held_command(["sh", "-c", 'cat; printf "%s\\0" "$@"; exit 9', "x", *words]))
    # In a session of its own, as under sshd: it ends its whole process group.
    command = ["sh", "-c", line]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as held:
        assert held.stdout
        assert held.stdout.read().split(b"\0")[:-1] == [word.encode() for word in words]
        assert held.wait(LONG) == 9


def test_a_held_command_ends_with_its_input() -> None:
    line = command_line(held_command(["sh", "-c", "echo on; sleep 60"]))
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", line], stdin=pipe, stdout=pipe, start_new_session=True) as held:
        assert held.stdin
        assert held.stdout
        assert held.stdout.readline() == b"on\n"
        held.stdin.close()
        assert held.wait(LONG) != 0
