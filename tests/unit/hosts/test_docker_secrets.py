"""Entry points that export secrets, in a shell and in Python, run as a container runs them."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tfprov.hosts.docker_archive import below
from tfprov.hosts.docker_secrets import contents, in_python, in_shell

VALUES = {"API_TOKEN": 'it\'s $(a) `b` "c"\n\\ ä \udcff\n', "EMPTY_KEY": "", "_SECRET": "-n"}
PRINTS = "import json, os, sys; print(json.dumps([{n: os.environ[n] for n in sys.argv[1:3]}, os.environ['_SECRET']]))"


def run(entry: list[str], *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*entry, *argv], capture_output=True, text=True, check=False, env={"PATH": os.defpath})


@pytest.mark.parametrize("kind", ["shell", "python"])
def test_a_program_finds_its_secrets_to_the_byte_or_is_not_run(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "se crets"
    entry = in_shell(str(directory)) if kind == "shell" else in_python(sys.executable, str(directory))
    lost = run(entry, "true")
    assert (lost.returncode, lost.stdout) == (78, "")
    assert f"the secrets of this task are not in {directory} any more" in lost.stderr
    assert lost.stderr.endswith("run `tfprov up`\n")
    directory.mkdir()
    for name, data in contents(VALUES).items():
        (directory / name).write_bytes(data)
    done = run(entry, sys.executable, "-I", "-S", "-c", PRINTS, "API_TOKEN", "EMPTY_KEY")
    assert json.loads(done.stdout) == [{"API_TOKEN": VALUES["API_TOKEN"], "EMPTY_KEY": ""}, "-n"], done.stderr
    absent = run(entry, "no-such-program")
    assert (absent.returncode, "no-such-program" in absent.stderr) == (127, True)
    assert not [value for value in VALUES.values() if len(value) > 2 and value in " ".join(entry)]


def test_code_for_a_read_only_container_is_put_below_its_volume() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name, data in {"code/a.py": b"1", "code/b/c.py": b"2", "etc/passwd": b"3"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    with tarfile.open(fileobj=io.BytesIO(below(archive.getvalue(), "/code"))) as moved:
        contained = {info.name: getattr(moved.extractfile(info), "read", bytes)() for info in moved}
    assert contained == {"a.py": b"1", "b/c.py": b"2"}
