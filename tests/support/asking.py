"""The tests' side of `oracle.py`: starts it, asks it, ends it."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_ORACLE = Path(__file__).with_name("oracle.py")


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing that is configured on this machine changes Ansible's answers."""
    return {
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    }


def work_as_in(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Work in `home`, with the environment that Ansible has there."""
    patch.chdir(home)
    patch.delenv("TFPROV_INVENTORY", raising=False)
    for name, value in environment(home).items():
        patch.setenv(name, value)


class Ansible:
    """ansible-core in a process of its own, working in `home`, an empty directory; its warnings go to a file there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._said = (home / "ansible.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(_ORACLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=home,
            env=environment(home),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._said.close()

    def ask(self, question: str, **details: Any) -> Any:
        """Return Ansible's answer to `question`, a function of `oracle.py`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"ask": question, **details}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"Ansible is gone: {Path(self._said.name).read_text()[-3000:]}"
        found = json.loads(line)
        assert "answer" in found, found["failed"]
        return found["answer"]
