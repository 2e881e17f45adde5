"""Entry points that export secrets, in a shell and in Python, run as in a container."""

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
from tfprov.hosts.docker.archive import subtree
from tfprov.hosts.docker.secret_files import (
    put_secrets,
    python_entrypoint,
    remove_secrets,
    secret_file_contents,
    shell_entrypoint,
)

VALUES = {"API_TOKEN": 'it\'s $(a) `b` "c"\n\\ ä \udcff\n', "EMPTY_KEY": "", "_SECRET": "-n"}
PRINTS = "import json, os, sys; print(json.dumps([{n: os.environ[n] for n in sys.argv[1:3]}, os.environ['_SECRET']]))"


def run(entry: list[str], *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*entry, *argv], capture_output=True, text=True, check=False, env={"PATH": os.defpath})


@pytest.mark.parametrize("kind", ["shell", "python"])
def test_a_program_gets_its_secrets_unchanged_or_is_not_run(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "se crets"
    entry = shell_entrypoint(str(directory)) if kind == "shell" else python_entrypoint(sys.executable, str(directory))
    missing = run(entry, "true")
    assert (missing.returncode, missing.stdout) == (78, "")
    assert f"the secrets of this task are not in {directory} any more" in missing.stderr
    assert missing.stderr.endswith("run `tfprov up`\n")
    directory.mkdir()
    for name, data in secret_file_contents(VALUES).items():
        (directory / name).write_bytes(data)
    completed = run(entry, sys.executable, "-I", "-S", "-c", PRINTS, "API_TOKEN", "EMPTY_KEY")
    assert json.loads(completed.stdout) == [{"API_TOKEN": VALUES["API_TOKEN"], "EMPTY_KEY": ""}, "-n"], completed.stderr
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


def test_invalid_users_of_an_image_are_one_line_errors() -> None:
    """Python accepts digits beyond ASCII, and not every number is a user id."""
    failures = []
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
            put_secrets(engine(engine_answers(user, line)), "tfprov-lab-ps-0", "tfprov/lab:1", ["sh"], {"KEY": "x"})
        except HostError as error:
            message = str(error)
            if known or "has no user" not in message or not message.startswith("h1: "):
                failures.append((user[:10], line[:30], message))
        else:
            failures += [] if known else [(user[:10], line[:30], "accepted")]
    assert failures == []


def engine_answers(user: str, line: str) -> Callable[[str, str], bytes]:
    """Return the answers of an engine with an image of `user` and one `line` in its /etc/passwd."""

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
def test_secrets_are_removed_even_if_the_image_is_gone(others: int) -> None:
    """Any other image serves, as it is never started; without any, the container can still be removed."""
    requests: list[str] = []

    def answer(method: str, path: str) -> bytes:
        bare = path.partition("?")[0]
        requests.append(f"{method} {bare.rpartition('/')[2]}")
        if bare.endswith("/containers/create"):
            is_first = requests.count("POST create") == 1
            message = {"message": "No such image: sha256:gone"} if is_first else {"Id": ID, "Warnings": []}
            return answered(json.dumps(message).encode(), 404 if is_first else 201)
        if bare.endswith("/images/json"):
            return answered(json.dumps([{"Id": "sha256:bb", "RepoTags": None}] * others).encode())
        return recorded(path) if method == "GET" else answered(b"")

    hostile = engine(answer)
    with hostile.errors():
        remove_secrets(hostile, "tfprov-lab-ps-0", "sha256:gone")
    assert (requests.count("POST create"), requests.count("PUT archive")) == (1 + others, others)


def test_code_of_a_read_only_container_is_relative_to_its_volume() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        for name, data in {"code/a.py": b"1", "code/b/c.py": b"2", "etc/passwd": b"3"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    with tarfile.open(fileobj=io.BytesIO(subtree(archive.getvalue(), "/code"))) as moved:
        contained = {info.name: getattr(moved.extractfile(info), "read", bytes)() for info in moved}
    assert contained == {"a.py": b"1", "b/c.py": b"2"}
