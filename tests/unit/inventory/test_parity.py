"""`tfprov inventory` and `ansible-inventory` print the same text for every inventory in `tests/cases/inventory/`.

A case is a file or a directory, the argument of `-i`; where `args.txt` lies in the directory, it holds the options instead,
with `HERE` for the directory.
"""

import functools
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible_oracle import KEPT, Ansible, AnswerCache, ansible_environment, enter_ansible_environment
from tests.support.command_output import run_command
from tests.support.paths import CASES

DIRECTORY = CASES / "inventory"
INVENTORIES = sorted(path.name for path in DIRECTORY.iterdir())
HOSTS = 6
"""Hosts of a case that are also printed one by one."""
ANSIBLE_CFG = "dir_ignored/ansible.cfg: warning: tfprov reads only"
NOTHING_IN_THEM = ("empty_all.yml", "ini_empty.ini")

pytestmark = pytest.mark.lane("parity")


@pytest.fixture(autouse=True)
def in_the_same_place(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_ansible_environment(ansible.home, monkeypatch)


def options(case: str) -> list[str]:
    """Return the options of a case, for both commands."""
    path = DIRECTORY / case
    arguments = path / "args.txt"
    if not arguments.exists():
        return ["-i", str(path)]
    return [word.replace("HERE", str(path)) for word in shlex.split(arguments.read_text())]


@functools.cache
def kept() -> AnswerCache:
    return AnswerCache(KEPT, DIRECTORY)


def ours(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what `tfprov inventory ARGUMENTS` prints; Ansible masks nothing."""
    result = run_command(capsys, "inventory", *arguments, "--show-secrets")
    assert (result.code, [line for line in result.lines if ANSIBLE_CFG not in line]) == (0, [])
    return result.out


def theirs(ansible: Ansible, case: str, *actions: list[str]) -> list[str]:
    """Return what `ansible-inventory` prints for each action; it must accept every source."""
    words = [case, *map(shlex.join, actions)]
    answers = kept().get(words, lambda: ansible.ask("commands", arguments=options(case), actions=list(actions)))
    assert [code for code, _ in answers] == [0] * len(actions), answers
    return [text for _, text in answers]


WHOLE = (["--list"], ["--graph"], ["--graph", "--vars"])


@pytest.mark.parametrize("case", INVENTORIES)
def test_a_case_is_read_as_by_ansible(ansible: Ansible, capsys: pytest.CaptureFixture[str], case: str) -> None:
    listed = ours(capsys, "list", *options(case))
    forms = [("list",), ("graph",), ("graph", "--vars"), *(("host", name) for name in _some(json.loads(listed)))]
    answers = theirs(ansible, case, *([f"--{verb}", *words] for verb, *words in forms))
    printed = {forms[0]: listed} | {form: ours(capsys, *form, *options(case)) for form in forms[1:]}
    assert printed == dict(zip(forms, answers, strict=True))
    groups = [group for name, group in json.loads(answers[0]).items() if name not in ("_meta", "all")]
    assert bool(groups) is (case not in NOTHING_IN_THEM), "a case says something"


def _some(listed: dict[str, Any]) -> list[str]:
    """Return a sample of the hosts of a list."""
    groups = (group.get("hosts", []) for name, group in listed.items() if name != "_meta")
    names = list(dict.fromkeys(name for hosts in groups for name in hosts if ":" not in name))
    return names[:: max(1, len(names) // HOSTS)]


@pytest.mark.parametrize("group", ["web", "backend", "db", "all"])
def test_the_graph_of_a_group_is_that_of_ansible(
    ansible: Ansible, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    case = "web_three_tiers.yml"
    expected = theirs(ansible, case, ["--graph", group])[0]
    assert ours(capsys, "graph", group, *options(case)) == expected


def test_the_settings_of_tfprov_are_merged_where_ansible_replaces_them(
    ansible: Ansible, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The only difference: tfprov merges its settings."""
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(
        "all: {vars: {tfprov: {cluster: c, flags: {steps: 1, rate: 2}}, other: {a: 1}}}\n"
        "worker: {hosts: {w: }, vars: {tfprov: {flags: {steps: 10}}, other: {b: 2}}}\n"
    )
    answer = ansible.ask("commands", arguments=["-i", str(inventory)], actions=[["--list"]])
    replaced = json.loads(answer[0][1])["_meta"]["hostvars"]["w"]
    merged = json.loads(ours(capsys, "list", "-i", str(inventory)))["_meta"]["hostvars"]["w"]
    assert replaced == {"other": {"b": 2}, "tfprov": {"flags": {"steps": 10}}}
    assert merged == {"other": {"b": 2}, "tfprov": {"cluster": "c", "flags": {"steps": 10, "rate": 2}}}


COMMANDS = (
    *(("kube_tree", "--graph --vars"), ("web_templates.yml", "--list"), ("dir_mixed", "--graph")),
    *(("limit_group", "--list"), ("hpc_script.py", "--graph --vars")),
)


def test_the_oracle_prints_what_the_command_prints(ansible: Ansible) -> None:
    """The oracle runs Ansible's code in a process that stays; this compares it with the command."""
    for case, form in COMMANDS:
        (expected,) = theirs(ansible, case, form.split())
        printed = kept().get(["shell", case, form], functools.partial(shell_output, ansible.home, case, form))
        assert (case, printed) == (case, expected)


def shell_output(home: Path, case: str, form: str) -> str:
    command = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run(
        [sys.executable, command, *options(case), *form.split()],
        capture_output=True,
        text=True,
        env=ansible_environment(home),
        cwd=home,
        check=True,
    )
    return done.stdout


def test_the_cases_are_complete() -> None:
    assert len(INVENTORIES) >= 130
    scripts = [path for path in DIRECTORY.rglob("*") if path.is_file() and path.read_bytes().startswith(b"#!")]
    assert len(scripts) >= 6
    assert all(path.stat().st_mode & stat.S_IXUSR for path in scripts), "they are executable in git"
    others = [path for path in DIRECTORY.rglob("*") if path.is_file() and path not in scripts]
    assert not any(os.access(path, os.X_OK) for path in others)
