"""Entry points that export secrets, in a shell and in Python, run as a container runs them."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.hostile import CONTAINER, ID, STAT, answered, engine, recorded
from tfprov.errors import HostError
from tfprov.hosts.docker.archive import below
from tfprov.hosts.docker.secret_files import contents, forget, in_python, in_shell, place

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


def passwd(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("passwd")
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_an_image_may_name_any_user_and_is_refused_in_one_line() -> None:
    """Not only the digits of ASCII are digits to Python, and not every number is one of a user."""
    wrong = []
    for user, line, known in (
        ("trainer", "trainer:x:1000:1000::/:/bin/sh", True),
        ("trainer", "trainer:x:\u00b2:1000::/:/bin/sh", False),
        ("trainer", f"trainer:x:{'9' * 5000}:1::/:/bin/sh", False),
        ("trainer", "trainer:x:4294967295:1::/:/bin/sh", False),
        ("4294967294:5", "", True),
        ("\u00b2", "", False),
        ("9" * 5000, "", False),
        ("", "", True),
    ):
        try:
            place(engine(sealed(user, line)), "tfprov-lab-ps-0", "tfprov/lab:1", ["sh"], {"KEY": "x"})
        except HostError as error:
            said = str(error)
            if known or "has no user" not in said or not said.startswith("h1: "):
                wrong.append((user[:10], line[:30], said))
        else:
            wrong += [] if known else [(user[:10], line[:30], "accepted")]
    assert wrong == []


def sealed(user: str, line: str) -> Callable[[str, str], bytes]:
    """Return what an engine answers that has an image of `user`, with one `line` in its list of users."""

    def answer(method: str, path: str) -> bytes:
        bare = path.partition("?")[0]
        if bare.endswith("/containers/create"):
            return answered(json.dumps({"Id": ID, "Warnings": []}).encode(), 201)
        if bare.endswith("/archive") and "passwd" in path:
            return answered(passwd(line + "\n"), stat=STAT)
        if bare.endswith(f"/{ID}/json"):
            config = {**cast("dict[str, Any]", CONTAINER["Config"]), "User": user}
            return answered(json.dumps({**CONTAINER, "Config": config}).encode())
        return recorded(path) if method in {"GET", "HEAD"} else answered(b"")

    return answer


@pytest.mark.parametrize("others", [1, 0])
def test_secrets_are_removed_also_where_somebody_removed_the_image(others: int) -> None:
    """Any other image will do, because nothing of it is started; without any, the container can be removed all the same."""
    asked: list[str] = []

    def answer(method: str, path: str) -> bytes:
        bare = path.partition("?")[0]
        asked.append(f"{method} {bare.rpartition('/')[2]}")
        if bare.endswith("/containers/create"):
            is_first = asked.count("POST create") == 1
            said = {"message": "No such image: sha256:gone"} if is_first else {"Id": ID, "Warnings": []}
            return answered(json.dumps(said).encode(), 404 if is_first else 201)
        if bare.endswith("/images/json"):
            return answered(json.dumps([{"Id": "sha256:bb", "RepoTags": None}] * others).encode())
        return recorded(path) if method == "GET" else answered(b"")

    there = engine(answer)
    with there.errors():
        forget(there, "tfprov-lab-ps-0", "sha256:gone")
    assert (asked.count("POST create"), asked.count("PUT archive")) == (1 + others, others)


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
