"""Standard streams that are closed, full, or read by nobody: a verb ends quietly, with an exit code that says so."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

INVENTORY = """\
all: {vars: {tfprov: {cluster: lab, command: [python, t.py]}}}
ps: {hosts: {localhost: }}
worker: {hosts: {localhost: }}
"""


def test_a_verb_ends_quietly_whatever_becomes_of_its_streams(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(INVENTORY)
    reading, unread = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("wb") as full:
        cases = {
            "status, closed": ("status -i i.yml", ">&-", None, 0),
            "status, unread": ("status -i i.yml", "", unread, 141),
            "a wrong path, all closed": ("status -i none.yml", "<&- >&- 2>&-", None, 2),
            "help, unread": ("--help", "", unread, 141),
            "help, full": ("--help", "", full.fileno(), 1),
        }
        wrong = {}
        for name, (words, streams, out, code) in cases.items():
            done = subprocess.run(
                ["sh", "-c", f'exec "$0" -m tfprov {words} {streams}', sys.executable],
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                cwd=tmp_path,
                env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
            )
            if done.returncode != code or (done.stderr and name != "help, full") or "Traceback" in done.stderr:
                wrong[name] = done.returncode, done.stderr
    os.close(unread)
    assert wrong == {}


def test_an_output_on_a_full_disk_is_an_error_with_a_fix() -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, "-m", "tfprov", "inventory", "schema"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "error: No space left on device; free some, or write the output elsewhere\n"
    assert done.returncode == 1


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("locale", "shown"), [({"PYTHONIOENCODING": "latin-1"}, b"gr\xf6\xdfe"), (ASCII, rb"gr\u00f6\u00dfe")]
)
def test_text_that_the_encoding_of_the_output_lacks_is_escaped_and_a_document_is_utf_8(
    tmp_path: Path, locale: Mapping[str, str], shown: bytes
) -> None:
    name = "größe ━ \N{GRINNING FACE}"
    (tmp_path / "i.yml").write_text(INVENTORY.replace("t.py", name), encoding="utf-8")

    def printed(words: str) -> bytes:
        command = [sys.executable, "-m", "tfprov", *words.split(), "-i", "i.yml"]
        env = {**os.environ, **locale, "XDG_STATE_HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, env=env).stdout

    assert shown + rb" \u2501 \ud83d\ude00" in printed("inventory explain localhost tfprov.command")
    assert name in printed("inventory list").decode()


def test_a_file_name_that_the_locale_does_not_have_is_an_error_with_a_fix(tmp_path: Path) -> None:
    text = (
        "all: {vars: {tfprov: {cluster: lab, command: [python]}}}\nworker: {hosts: {wö1: {ansible_connection: local}}}"
    )
    (tmp_path / "i.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "tfprov", "plan", "-i", "i.yml"]
    env = {**os.environ, **ASCII, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    error = "a file name with `\\xf6` is impossible in this locale; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {error}\n")
