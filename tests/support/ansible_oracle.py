"""Query ansible-core through `oracle.py`, in a process of its own, and cache its answers.

An answer depends on the question, on the files of its working directory, and on those of every directory that the question
names. It is kept below `$XDG_CACHE_HOME/tfprov-tests/ansible`, by the content of all of these.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support.paths import cache_home

DAY = 24 * 3600
KEPT = cache_home() / "ansible"
_ORACLE = Path(__file__).with_name("oracle.py")
_WRITTEN = ("<0>/.ansible", "<0>/ansible.log")
"""What Ansible writes itself into its working directory."""


def ansible_environment(home: Path) -> dict[str, str]:
    """Return an environment in which no configuration of this machine changes Ansible's answers."""
    return {
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    }


def enter_ansible_environment(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Work in `home`, with the environment that Ansible has there."""
    patch.chdir(home)
    patch.delenv("TFPROV_INVENTORY", raising=False)
    for name, value in ansible_environment(home).items():
        patch.setenv(name, value)


class Ansible:
    """ansible-core in a process of its own, working in `home`, an empty directory; its warnings go to a file there.

    The process starts with the first question: if every answer is cached, there is none.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate()
        self._stack.close()

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, str(_ORACLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stack.enter_context(self._log.open("w")),
            text=True,
            cwd=self.home,
            env=ansible_environment(self.home),
        )
        self._ask(
            "commands", arguments=["-i", "h,"], actions=[["--list"]]
        )  # ansible-core keeps the `-e` of the first command
        return self._process

    @property
    def _log(self) -> Path:
        return self.home / "ansible.log"

    @cached_property
    def _kept(self) -> "AnswerCache":
        return AnswerCache(KEPT)

    def ask(self, question: str, **details: Any) -> Any:
        """Return Ansible's answer to `question`, a function of `oracle.py`: a kept one where nothing has changed."""
        words = [*details.get("sources", ()), *details.get("arguments", ())]
        paths = [Path(word.removeprefix("@")) for word in words if word.removeprefix("@").startswith("/")]
        directories = dict.fromkeys([self.home, *(path if path.is_dir() else path.parent for path in paths)])
        # By number, because these directories are others in every session; one may have the path of another in its own.
        names = {str(path): f"<{number}>" for number, path in enumerate(directories)}
        names = {path: names[path] for path in sorted(names, key=len, reverse=True)}
        files = [f"{names[str(path)]}/{line}" for path in directories for line in described(path)]
        others = (file for file in files if not file.startswith(_WRITTEN))
        parts = [question, _replaced(json.dumps(details), names), *others]
        answer = self._kept.get(parts, lambda: _replaced(json.dumps(self._ask(question, **details)), names))
        return json.loads(_replaced(answer, {name: path for path, name in names.items()}))

    def _ask(self, question: str, **details: Any) -> Any:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps({"ask": question, **details}), file=process.stdin, flush=True)
        line = process.stdout.readline()
        assert line, f"Ansible ended: {self._log.read_text()[-3000:]}"
        answer = json.loads(line)
        assert "answer" in answer, answer["failed"]
        return answer["answer"]


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


def described(directory: Path) -> Iterator[str]:
    """Yield a line for each file below `directory`, with its mode and what identifies its content."""
    for path in sorted(directory.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        yield f"{path.relative_to(directory)} {path.stat().st_mode:o} {hashlib.sha256(content).hexdigest()}"


class AnswerCache:
    """Answers to questions about `inputs`, a directory, kept between sessions while no file of it changes.

    They are Ansible's own: another version of it, of `oracle.py` or of any input is another key. `ours` holds them.
    """

    def __init__(self, ours: Path, inputs: Path | None = None) -> None:
        key = hashlib.sha256(f"{metadata.version('ansible-core')} {sys.version}".encode())
        for source in (_ORACLE, Path(__file__)):
            key.update(source.read_bytes())
        for line in described(inputs) if inputs else ():
            key.update(f"{line}\n".encode())
        self.directory = ours / key.hexdigest()[:16]

    def get(self, question: list[str], ask: Callable[[], Any]) -> Any:
        """Return the cached answer to `question`, else that of `ask`."""
        path = self.directory / f"{hashlib.sha256(json.dumps(question).encode()).hexdigest()[:16]}.json"
        with contextlib.suppress(FileNotFoundError):
            return json.loads(path.read_text())
        answer = ask()
        if not self.directory.exists():
            self._forget_old()
            self.directory.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(answer))
        beside.replace(path)
        return answer

    def _forget_old(self) -> None:
        """Remove answers about other inputs that are older than a day: other work trees may use newer ones."""
        for other in self.directory.parent.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process removes it as well
                if time.time() - other.stat().st_mtime > DAY:
                    shutil.rmtree(other, ignore_errors=True)
