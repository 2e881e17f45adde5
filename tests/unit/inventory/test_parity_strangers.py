"""`tfprov inventory` and `ansible-inventory` print the same text for shapes of public inventories.

A shape is a row: its files, and what is warned of in passing, which Ansible warns of as well, or does not care about.
"""

import difflib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.ansible_oracle import KEPT, Ansible, AnswerCache, ansible_environment, enter_ansible_environment
from tests.support.command_output import run_command, write_files
from tests.support.vaults import encrypt

pytestmark = pytest.mark.lane("parity")

SEALED = "!vault |\n{0}$ANSIBLE_VAULT;1.1;AES256\n{0}33363631\n"
GOOD = "web: {hosts: {w1: {a: 1}, w2: }}\n"
ACTIONS = ("list", "list --yaml", "list --export", "list --yaml --export", "graph --vars")


@dataclass(frozen=True)
class Shape:
    """An inventory with `files`, read with `-i .` or `source`; `warned` are words of its warnings, in order."""

    files: Mapping[str, str]
    source: str = "."
    warned: tuple[str, ...] = ()
    actions: tuple[str, ...] = field(default=ACTIONS)


def shape(text: str, *warned: str, name: str = "hosts.yml", actions: tuple[str, ...] = ACTIONS) -> Shape:
    return Shape({name: text}, name, warned, actions)


def among(name: str, text: str, *warned: str) -> Shape:
    """A file in the directory of a good inventory."""
    return Shape({"hosts.yml": GOOD, name: text}, ".", warned or (f"{name}: warning: skipped",))


WITHOUT_VARS = tuple(action for action in ACTIONS if action != "graph --vars")
"""Ansible fails to show such a variable in its graph."""
SHAPES = {
    "a program's configuration": among("nginx.conf", "server {\n  listen 80;\n}\n"),
    "a README without an extension": among("README", "This directory holds, among others, the hosts.\n===\n"),
    "a licence": among("LICENSE", "The MIT License (MIT)\n\nPermission is hereby granted, free of charge\n"),
    "a Makefile": among("Makefile", ".PHONY: ping\nping:\n\tansible all -m ping\n"),
    "a template": among("hosts.j2", "{% for h in groups['web'] %}\n{{ h }}\n{% endfor %}\n"),
    "a playbook": among("site.yml", "- hosts: web\n  tasks: []\n"),
    "a list": among("requirements.yml", "- src: a.role\n- src: b.role\n"),
    "a text called YAML": among("notes.yaml", "just some notes\n"),
    "single values in JSON": among("package.json", '{"name": "x", "private": true, "files": ["a"]}\n'),
    "a script that is not executable": among("ping.sh", "#!/bin/sh\nansible all -m ping\n"),
    "a key file": among("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n"),
    "a stray file in a directory below": among("prod/notes.log", "12:00 it is = ok\n"),
    "a file of another extension that is an inventory": Shape({"hosts.prod": "[web]\nw1 a=1\n", "b.yml": GOOD}),
    "hosts and groups that are not ASCII": shape(
        "all: {hosts: {käse-1: , 主机: {a: ü}, é.example.com: }, children: {größe: {hosts: {käse-1: }}}}\n"
    ),
    "an ini with a name that is not ASCII": shape("[web]\nmünchen[1:2] a=ß\n", name="hosts"),
    "a plain text behind the tag of a vault": shape(
        "web: {hosts: {w1: {a: !vault plain, b: !vault '{{ c }}'}}}\n",
        "hosts.yml:1:23: warning: marked as encrypted",
        "hosts.yml:1:40: warning: marked as encrypted",
        actions=WITHOUT_VARS,
    ),
    "a vault's text behind a blank": shape(
        f"web:\n  vars:\n    a: {SEALED.format('      ')}".replace("|", "|2").replace("      $", "       $", 1)
        + "  hosts: {w1: }\n",
        "hosts.yml:3:8: warning: marked as encrypted",
        actions=WITHOUT_VARS,
    ),
    "a vault's value of several hosts": shape(
        f"all:\n  vars:\n    token: {SEALED.format('      ')}  hosts: {{w1: , w2: , w3: }}\n", actions=WITHOUT_VARS
    ),
    "a vault's value in a list of several hosts": shape(
        f"all:\n  vars:\n    many:\n    - {SEALED.format('      ')}    - 2\n  hosts: {{w1: , w2: }}\n", actions=WITHOUT_VARS
    ),
    "a vault's value of two hosts by an alias": shape(
        f"all:\n  hosts:\n    w1:\n      a: &a {SEALED.format('        ')}    w2: {{a: *a, b: *a}}\n", actions=WITHOUT_VARS
    ),
    "a vault's value of a range": shape(
        f"web:\n  hosts:\n    w[1:2]:\n      a: {SEALED.format('        ')}", actions=WITHOUT_VARS
    ),
    "keys that are numbers": shape("web: {hosts: {w1: , w2: }, vars: {ports: {80: http, 443: {1: x}}, x: {a: 1, 2: b}}}\n"),
    "keys that are true, null and fractions": shape("web: {hosts: {w1: {m: {true: y, null: z, 1.5: f}}}}\n"),
    "variables that are numbers": shape("web: {hosts: {w1: {8: eight}, w2: }, vars: {5: five}}\n", actions=WITHOUT_VARS),
    "a group workers beside the role": shape("worker: {hosts: {w1: }}\nworkers: {hosts: {w2: }}\n"),
    "an empty password": shape("web: {hosts: {w1: {ansible_password: ''}}}\n"),
    "more options of ssh": shape("web: {hosts: {w1: {ansible_ssh_common_args: '-4 -o IdentitiesOnly=yes'}}}\n"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_same_place(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_ansible_environment(ansible.home, monkeypatch)


def test_an_inventory_from_elsewhere_is_read_as_by_ansible(
    ansible: Ansible, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(SHAPES) >= 20
    differs: dict[str, str] = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        directory = tmp_path / str(number)
        directory.mkdir()
        monkeypatch.chdir(directory)
        write_files(shape.files)
        source = ["-i", str(directory / shape.source)]
        actions = [shlex.split(f"--{action}") for action in shape.actions]
        theirs = ansible.ask("commands", arguments=source, actions=actions, lenient=True)
        for action, answer in zip(shape.actions, theirs, strict=True):
            result = run_command(capsys, "inventory", *shlex.split(action), "--show-secrets", *source)
            as_expected = len(result.lines) == len(shape.warned) and all(
                f"{directory}/{words}" in line for words, line in zip(shape.warned, result.lines, strict=True)
            )
            if not as_expected or [result.code, result.out] != answer:
                differs[f"{name}: {action}"] = "\n".join(
                    [*result.lines, *difflib.unified_diff(answer[1].splitlines(), result.out.splitlines())]
                )
    assert not differs, "\n".join(f"{name}:\n{text}" for name, text in differs.items())


def test_an_ansible_cfg_names_the_vault_password_file_and_ignored_extensions(
    ansible: Ansible, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = {
        "ansible.cfg": "[defaults]\nvault_password_file = pw ; x\n[inventory]\nignore_extensions = .conf, .old\n",
        "pw": "open sesame\n",
        "hosts/all.yml": encrypt("web: {hosts: {w1: {a: 1}}}\n")[0],
        "hosts/more.conf": "[not\n",
        "hosts/more.old": "[web]\nw9\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    source = ["-i", str(tmp_path / "hosts")]
    command = [sys.executable, str(Path(sys.executable).with_name("ansible-inventory")), "--graph", *source]
    env = ansible_environment(ansible.home) | {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    theirs = AnswerCache(KEPT, tmp_path).get(
        ["ansible-inventory", "--graph", "hosts"],
        lambda: subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout,
    )
    result = run_command(capsys, "inventory", "graph", *source)
    assert (result.code, result.lines, result.out) == (0, (), theirs)
    assert "w1" in result.out
