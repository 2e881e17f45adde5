"""Standard streams that are closed, full, or read by nobody: a verb ends quietly, with an exit code that says so."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_text_that_the_encoding_of_the_output_lacks_is_escaped_and_a_document_is_refused(tmp_path: Path) -> None:
    name = "größe ━ \N{GRINNING FACE}"
    (tmp_path / "i.yml").write_text(INVENTORY.replace("t.py", name), encoding="utf-8")

    def printed(words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "tfprov", *words.split(), "-i", "i.yml"]
        env = {**os.environ, "PYTHONIOENCODING": "latin-1", "XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=env, encoding="latin-1")
        assert "Traceback" not in done.stderr
        return done

    assert "größe \\u2501 \\ud83d\\ude00" in printed("inventory explain localhost tfprov.command").stdout
    refused = printed("inventory list")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: UnicodeEncodeError: 'latin-1' codec")
