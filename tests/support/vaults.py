"""Encrypt texts with ansible-vault, in a process of its own, and cache what it returns."""

import atexit
import json
import subprocess
import sys
from functools import cache

from tests.support.ansible_oracle import KEPT, AnswerCache

_PROGRAM = """\
import json, sys
from ansible.parsing.vault import VaultLib, VaultSecret
for line in sys.stdin:
    text, password, label = json.loads(line)
    secret = VaultSecret(password.encode())
    made = VaultLib().encrypt(text.encode("latin-1"), secret=secret, vault_id=label or None)
    print(json.dumps(made.decode()), flush=True)
"""


@cache
def _process() -> "subprocess.Popen[str]":
    """Return the process that encrypts: one for all tests, because importing Ansible takes a while."""
    made = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    atexit.register(made.communicate)
    return made


@cache
def _kept() -> AnswerCache:
    return AnswerCache(KEPT)


@cache
def _encrypted(text: str, password: str, label: str) -> str:
    kept: str = _kept().get(["encrypt", text, password, label], lambda: _encrypt(text, password, label))
    return kept


def _encrypt(text: str, password: str, label: str) -> str:
    process = _process()
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps([text, password, label]) + "\n")
    process.stdin.flush()
    answer: str = json.loads(process.stdout.readline())
    return answer


def encrypt(*texts: str, password: str = "open sesame", label: str = "") -> list[str]:
    """Return `texts` (each character a byte) encrypted with `password`."""
    return [_encrypted(text, password, label) for text in texts]


def value(ciphertext: str, indent: int) -> str:
    """Return an encrypted value as it stands in a YAML file."""
    blanks = " " * indent
    return "!vault |\n" + "".join(f"{blanks}{line}\n" for line in ciphertext.splitlines())
