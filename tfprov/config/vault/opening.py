"""What ansible-vault encrypted, opened by Ansible's own code when it is needed, and not before.

Ansible is optional, and importing it changes a process, so its code runs in one of its own (`opener`): one for all
values. Passwords and what they open pass through pipes only.
"""

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfprov.config.vault.passwords import CONFIGURED, IDENTITIES, OPTIONS, PASSWORD_FILE, Passwords, Source
from tfprov.errors import InvalidInput, Position, Problem, hide, one_line, shown

if TYPE_CHECKING:  # most inventories have nothing encrypted
    import subprocess

HEADER = "$ANSIBLE_VAULT;"
"""Begins every encrypted file and value."""

_ENCRYPTED, _NOT_THIS = "encrypted with ansible-vault", "no given password decrypts this value"
_BROKEN = "not what ansible-vault writes: cut off, or changed since"
_UNENCRYPTED = f"marked as encrypted, and does not begin with `{HEADER}`"
_ENCRYPT = "put there what `ansible-vault encrypt_string` prints, or remove `!vault`"
_GIVE = "give it with --vault-password-file or --ask-vault-pass"
_PROGRAM = re.compile(
    r"#!\s*(\S*python\S*)|#!.*/env\s+(?:-S\s+)?(python\S*)|#!/bin/sh\n'''exec' \"?([^\"\n]*?python[^\" \n]*)"
)
"""The interpreter in the first lines of a script that pip or pipx installed."""


class Unopened(InvalidInput):
    """Something encrypted stays closed; what is said of it tells nothing of what it is."""


class Vault:
    """Opens encrypted texts with `passwords`; `find` returns a Python that has Ansible, or None.

    What has been opened is remembered, so that a value of a thousand hosts is opened once. `warnings` are about the
    values that were read, for whoever reads them.
    """

    def __init__(self, passwords: Passwords | None = None, find: Callable[[], str | None] | None = None) -> None:
        self.passwords = passwords or Passwords()
        self.opened: dict[str, str] = {}
        self._find = find or python_with_ansible
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: list[Problem] = []
        self.warnings: list[Problem] = []

    def use(self, password_file: str) -> None:
        """Take a password from the file that an ansible.cfg names, unless a variable of the environment names another."""
        self.passwords = replace(self.passwords, configured=password_file)

    def note_unencrypted(self, at: Position) -> None:
        """Warn of a text that is marked as encrypted and is not: it does no harm before it is used."""
        self.warnings.append(Problem(at, _UNENCRYPTED, _ENCRYPT))

    @property
    def failed(self) -> bool:
        """Whether nothing can be opened: there is no password, no Ansible, or its process has ended."""
        return bool(self._failure)

    def open(self, text: str, at: Position) -> str:
        """Return what `text`, which stands at `at`, was before it was encrypted; InvalidInput says why not.

        Without a password at all, or without Ansible, every value has the same complaint: that of the first.
        """
        if not text.startswith(HEADER):
            raise Unopened([Problem(at, _UNENCRYPTED, _ENCRYPT)])
        if text not in self.opened:
            if self._failure:
                raise Unopened(self._failure)
            answer = self._answer(text, at)
            if "refused" in answer:
                raise Unopened([Problem(at, *_refusal(answer["refused"], text))])
            self.opened[text] = _decoded(answer["opened"], at)
        return self.opened[text]

    def close(self) -> None:
        """End Ansible's process; it starts again when something else is to be opened."""
        process, self._process = self._process, None
        if process is not None and process.stdin and process.stdout:
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def _answer(self, text: str, at: Position) -> dict[str, str]:
        try:
            if self._process is None:
                self._process = self._start(at)
            return _asked(self._process, text)
        except (OSError, ValueError):
            self.close()
            self._fail(at, "Ansible's vault code ended before it answered", "try `ansible-vault view` on this file")
        except InvalidInput as error:
            self._failure = list(error.problems)
            raise Unopened(self._failure) from None
        raise AssertionError

    def _start(self, at: Position) -> "subprocess.Popen[bytes]":
        if not (sources := list(self.passwords.sources())):
            self._fail(at, f"{_ENCRYPTED}, and no password is given", _GIVE)
        if (python := self._find()) is None:
            fix = "install it with `pip install 'tfprov[vault]'`"
            self._fail(at, f"{_ENCRYPTED}, and ansible-core is not installed", fix)
        found: list[tuple[str, bytes]] = []
        for source in sources:
            found.append((source.label, self._password(source, found, str(python), at)))
        return self._with(str(python), found, at)

    def _password(self, source: Source, known: list[tuple[str, bytes]], python: str, at: Position) -> bytes:
        """Return a password; the file it is in may be encrypted itself, with one of those before it."""
        password = self.passwords.read(source)
        if not password.startswith(HEADER.encode()):
            return password
        process = self._with(python, known, at)
        try:
            answer = _asked(process, password.decode(errors="replace"))
        finally:
            self._process = process
            self.close()
        if "refused" in answer:
            what = f"`{shown(source.place)}` is encrypted itself, and no password before it opens it"
            raise InvalidInput([Problem(Position(source.option), what, "name the password of that file before it")])
        return base64.b64decode(answer["opened"]).strip(b"\r\n")

    def _with(self, python: str, passwords: list[tuple[str, bytes]], at: Position) -> "subprocess.Popen[bytes]":
        import subprocess  # noqa: PLC0415  see above

        source = Path(__file__).with_name("opener.py").read_text()
        # Ansible's own variables and files could make it log, or look for its password somewhere else.
        env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        process = subprocess.Popen(
            [python, "-c", source],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=env,
        )  # fmt: skip
        try:
            failed = json.loads(_line(process)).get("failed")
            if not failed:
                _send(process, [(label, base64.b64encode(password).decode()) for label, password in passwords])
                return process
        except (OSError, ValueError):
            failed = f"{python} ended before it answered"
        self._process = process
        self.close()
        self._fail(at, f"{_ENCRYPTED}, and Ansible's code fails: {one_line(failed)}", "repair it")
        raise AssertionError

    def _fail(self, at: Position, what: str, fix: str) -> None:
        self._failure = [Problem(at, what, fix)]
        raise Unopened(self._failure)


def _asked(process: "subprocess.Popen[bytes]", text: str) -> dict[str, str]:
    _send(process, text)
    answer: dict[str, str] = json.loads(_line(process))
    return answer


def _send(process: "subprocess.Popen[bytes]", what: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(what).encode() + b"\n")
    process.stdin.flush()


def _line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _decoded(answer: str, at: Position) -> str:
    try:
        text = base64.b64decode(answer).decode()
    except UnicodeDecodeError:
        what = "not UTF-8 text once it is decrypted"
        raise Unopened([Problem(at, what, "encrypt text, and put other files into `mounts`")]) from None
    hide(text)
    return text


def _refusal(why: str, text: str) -> tuple[str, str]:
    if why == "broken":
        return _BROKEN, "copy it again, or encrypt it anew"
    label = vault_id(text)
    named = f", whose vault id is `{shown(label)}`" if label else ""
    return f"{_NOT_THIS}{named}", "check the password, and that the value is whole"


def stays_closed(problem: Problem) -> bool:
    """Whether `problem` is about something encrypted that could not be opened, or about its password."""
    is_option = problem.at.file in (*OPTIONS, IDENTITIES, PASSWORD_FILE, CONFIGURED)
    return is_option or problem.what.startswith((_ENCRYPTED, _NOT_THIS, _BROKEN, _UNENCRYPTED))


def vault_id(text: str) -> str:
    """Return the vault id in the header of an encrypted text; empty when it has none."""
    words = text.split("\n", maxsplit=1)[0].strip().split(";")
    return words[3].strip() if len(words) > 3 else ""


def python_with_ansible() -> str | None:
    """Return our own Python where it has ansible-core, else that of the `ansible-vault` in PATH, else None."""
    if find_spec("ansible") is not None:
        return sys.executable
    if (command := shutil.which("ansible-vault")) is None:
        return None
    try:
        with Path(command).open(errors="replace") as file:
            found = _PROGRAM.match(file.read(4096))
    except OSError:
        return None
    python = next(filter(None, found.groups()), None) if found else None
    return shutil.which(python) if python else None
