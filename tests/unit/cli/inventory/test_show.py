"""`tfprov inventory list`, `host` and `graph`: the forms and options that the parity tests do not compare."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ansible_oracle import Ansible, enter_ansible_environment
from tests.support.command_output import CommandResult, run_command
from tests.support.vaults import encrypt, value

INVENTORY = """\
all:
  vars:
    date: 2026-01-02
    moment: 2026-01-02 03:04:05
    keys: {2: a, yes: b, ~: c, 9: d, 10: e}
    raw: !unsafe "{{ x }}"
    rendered: "{{ date }}"
    ratio: 1.0e+3
    lines: |
      one
      two
    long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb ccccccccccccccccccccccccccc
    word: höst 😀
    nothing: ~
    empty: {}
    some: [1, {a: [b]}]
    role_name: hidden, because Ansible has one of its own
  children:
    web:
      hosts: {"w[1:3]": {own: [1]}, "p:2200": }
      vars: {ansible_group_priority: 5, n: 1}
    db: {children: {web: , idle: }, vars: {some: [2]}}
"""
FORMS = (
    ["--list"], ["--list", "--export"], ["--list", "--yaml"], ["--list", "--yaml", "--export"],
    ["--list", "--limit", "w1:p"], ["--list", "--yaml", "--limit", "w*"], ["--host", "w1"], ["--host", "w1", "--yaml"],
    ["--host", "p", "--export"], ["--graph", "db"], ["--graph", "--vars", "web"],
)  # fmt: skip

pytestmark = pytest.mark.lane("show")


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ansible]:
    with Ansible(tmp_path_factory.mktemp("home")) as oracle:
        yield oracle


@pytest.fixture(autouse=True)
def workdir(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter_ansible_environment(ansible.home, monkeypatch)
    Path("i.yml").write_text(INVENTORY)
    Path("group_vars").mkdir(exist_ok=True)
    Path("group_vars/web.yml").write_text("file: [3]\nansible_group_priority: 7\n")
    return ansible.home


def ours(form: list[str]) -> list[str]:
    """Return the arguments of tfprov for an action of `ansible-inventory`."""
    verb, *rest = form
    return ["inventory", verb.removeprefix("--"), *rest]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_every_output_format_is_that_of_ansible_inventory(
    form: list[str], ansible: Ansible, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-i", "i.yml", "-e", "{extra: [4]}"]
    ((code, expected),) = ansible.ask("commands", arguments=options, actions=[form])
    assert code == 0, expected
    assert run_command(capsys, *ours(form), *options) == CommandResult(0, (), expected)


EXTRA = [
    "a=1", "a=1 b=two", "a='one two'", 'a="one two" b=3', "a=b=c", "a=", "a=[1,2]", "a=true",
    "a={{ x }} b=1", "a='{{ x + 1 }}'", "a={{ x | default('y z') }} b=2", "a=x\\", "a=one\\ntwo", "a=\\'x\\'", 'a=x"y z"w',
    "a=1\nb=2", "{a: 1e3, b: 010}", '{"a": 1e3, "b": [true, null], "c": "\\ud83d\\ude00"}',
    "{a: {b: [1, x]}}", "a=1 a=2", "a=é",
]  # fmt: skip


@pytest.mark.parametrize("extra", EXTRA)
def test_extra_vars_are_parsed_as_in_ansible(extra: str, ansible: Ansible, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-i", "h,", "-e", extra]
    ((code, expected),) = ansible.ask("commands", arguments=options, actions=[["--host", "h"]])
    assert code == 0, expected
    assert run_command(capsys, "inventory", "host", "h", *options) == CommandResult(0, (), expected)


SECRET = """\
all:
  vars:
    secret: {value}    raw: !unsafe "{{{{ x }}}}"
  hosts: {{h: }}
"""


@pytest.mark.parametrize(
    "form", [["--list"], ["--host", "h"], ["--list", "--yaml"], ["--host", "h", "--yaml"]], ids=" ".join
)
def test_encrypted_values_are_printed_encrypted(
    form: list[str], ansible: Ansible, capsys: pytest.CaptureFixture[str]
) -> None:
    (ciphertext,) = encrypt("sesame")
    Path("secret.yml").write_text(SECRET.format(value=value(ciphertext, 6)))
    ((code, expected),) = ansible.ask("commands", arguments=["-i", "secret.yml"], actions=[form])
    assert code == 0, expected
    assert run_command(capsys, *ours(form), "-i", "secret.yml") == CommandResult(0, (), expected)


def test_the_graph_masks_encrypted_values(capsys: pytest.CaptureFixture[str]) -> None:
    (ciphertext,) = encrypt("sesame")
    Path("secret.yml").write_text(SECRET.format(value=value(ciphertext, 6)))
    result = run_command(capsys, "inventory", "graph", "--vars", "-i", "secret.yml")
    assert "  |  |  |--{secret = ******}\n" in result.out
    assert "sesame" not in result.out


MASKED = """\
all:
  vars:
    ansible_become_pass: plain-become
    ansible_ssh_private_key_file: ~/.ssh/id
    reference: "{{ ansible_become_pass }}"
    db: {password: plain-nested, port: 5}
    api_token: [plain-listed, {first: plain-below, second: null}]
    tfprov:
      cluster: lab
      command: [python, t.py]
      public_env: [SORT_KEY]
      env: {HF_TOKEN: plain-token, MONKEY: banana, SORT_KEY: cherry, "SUDO": "{{ ansible_become_pass }}"}
  children: {ps: {hosts: {h: }}, worker: {hosts: {w: }}}
"""


def test_secrets_are_masked_without_show_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    Path("masked.yml").write_text(MASKED)
    shown = {}
    for form in (
        "list", "list --yaml", "list --export", "host h", "host h --yaml", "graph --vars", "explain h",
        "explain h --json", "explain h db", "explain h tfprov.env --json",
    ):  # fmt: skip
        words = ["inventory", *form.split(), "-i", "masked.yml"]
        result, whole = run_command(capsys, *words), run_command(capsys, *words, "--show-secrets")
        assert (result.code, whole.code) == (0, 0), form
        text = result.out + "".join(result.lines)
        shown[form] = "plain-" in text, "******" in text, "plain-" in whole.out, "******" in whole.out
        assert ("banana" in text and "cherry" in text) or form == "explain h db", form
    assert shown == dict.fromkeys(shown, (False, True, True, False))


def test_values_of_an_encrypted_file_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    (ciphertext,) = encrypt("api_key: sesame\n")
    Path("one").mkdir(exist_ok=True)
    Path("one/group_vars").mkdir(exist_ok=True)
    Path("one/i.yml").write_text("all: {hosts: {h: }}\n")
    Path("one/group_vars/all.yml").write_text(ciphertext)
    Path("password").write_text("open sesame\n")
    sources = ("-i", "one/i.yml", "--vault-password-file", "password")
    assert json.loads(run_command(capsys, "inventory", "host", "h", *sources).out) == {"api_key": "******"}
    refused = run_command(capsys, "inventory", "host", "h", "-i", "one/i.yml")
    assert refused.code == 2
    assert "--vault-password-file" in refused.lines[0]


def test_an_export_is_a_valid_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    exported = run_command(capsys, "inventory", "list", "--yaml", "--export", "-i", "i.yml").out
    Path("other").mkdir(exist_ok=True)
    Path("other/again.yml").write_text(exported)
    whole = run_command(capsys, "inventory", "list", "-i", "i.yml").out
    again = run_command(capsys, "inventory", "list", "-i", "other/again.yml").out
    variables = [json.loads(text)["_meta"]["hostvars"]["w1"] for text in (whole, again)]
    marked, plain = variables
    marked["raw"] = marked["raw"]["__ansible_unsafe"]  # an export does not say that this is no template, nor whence a
    marked["ansible_group_priority"] = plain["ansible_group_priority"] = None  # priority has come
    assert {key: str(text) for key, text in marked.items()} == {key: str(text) for key, text in plain.items()}


# The options


def test_the_inventory_comes_from_the_environment_or_the_default_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a place with blanks.yml").write_text("here: {hosts: {a: }}\n")
    Path("inventory.yml").write_text("here: {hosts: {b: }}\n")
    assert "|--b\n" in run_command(capsys, "inventory", "graph").out
    monkeypatch.setenv("TFPROV_INVENTORY", "a place with blanks.yml")
    assert "|--a\n" in run_command(capsys, "inventory", "graph").out
    assert "|--c\n" in run_command(capsys, "inventory", "graph", "-i", "c,").out
    monkeypatch.setenv("TFPROV_INVENTORY", "")
    assert "|--b\n" in run_command(capsys, "inventory", "graph").out
    os.unlink("inventory.yml")  # noqa: PTH108


NOBODY = "error: no host or group matches `nope`"
BAD = {
    "no such host": (["host", "nope"], NOBODY),
    "several hosts": (["host", "w*"], "error: `w*` matches 4 hosts; name one of them"),
    "no such group": (["graph", "nope"], "error: no group `nope`; its groups are all, ungrouped, web, db, idle"),
    "a limit of nobody": (["list", "-l", "nope"], NOBODY),
    "no file": (["list", "-i", "nope.yml"], "nope.yml: error: no such file; check the path after -i"),
    "a blank source": (["list", "-i", " "], "error: `-i` names no file; for example `-i inventory.yml`"),
}


@pytest.mark.parametrize(("words", "line"), BAD.values(), ids=BAD)
def test_errors_of_the_output_commands_are_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [] if "-i" in words else ["-i", "i.yml"]
    result = run_command(capsys, "inventory", *words, *sources)
    assert (result.code, result.out, len(result.lines)) == (2, "", 1)
    assert result.lines[0].startswith(line)


ANSIBLES = (
    *(f"ansible_{name}" for name in (
        "async_path", "collection_name", "config_file", "dependent_role_names", "diff_mode", "facts", "forks",
        "inventory_sources", "limit", "play_batch", "play_hosts", "play_hosts_all", "play_role_names",
        "playbook_python", "role_name", "role_names", "run_tags", "skip_tags", "verbosity", "version",
    )),
    "inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short", "role_name", "role_names",
    "role_path", "role_uuid", "groups", "group_names", "hostvars", "playbook_dir", "play_hosts",
)  # fmt: skip
"""`INTERNAL_STATIC_VARS` of Ansible: it gives these their values itself, and lists none of them."""


@pytest.mark.parametrize("form", [["list"], ["list", "--yaml"], ["list", "--export"], ["host", "h"]], ids=" ".join)
def test_internal_variables_of_ansible_are_not_listed(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    variables = ", ".join(f"{name}: hidden" for name in ANSIBLES)
    Path("own.yml").write_text(f"all: {{vars: {{{variables}, kept: 1}}, hosts: {{h: {{{variables}, own: 2}}}}}}\n")
    result = run_command(capsys, "inventory", *form, "-i", "own.yml")
    assert (result.code, result.lines) == (0, ())
    assert "own" in result.out
    assert "hidden" not in result.out
