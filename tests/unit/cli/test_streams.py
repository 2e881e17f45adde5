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
