"""Connections from Ansible's connection variables, and passwords that no message repeats."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tfprov.errors import InvalidInput, Position
from tfprov.inventory.yaml_source import read_groups
from tfprov.settings.connection import ConnectionSettings, resolve_connection
from tfprov.settings.load import load, load_inventory, parse_extra_vars
from tfprov.settings.resolve import resolve
from tfprov.yamltext.load import parse

FULL = """\
all:
  vars:
    ansible_user: trainer
    ansible_become: yes
    ansible_become_method: sudo
    ansible_become_user: root
    ansible_python_interpreter: /usr/bin/python3
    ansible_shell_type: sh
    keys: ~/keys
    ansible_ssh_private_key_file: "{{ keys }}/cluster"
    ansible_ssh_common_args: -J gate@bastion:2200 -o StrictHostKeyChecking=accept-new -i ~/keys/more
    tfprov: {cluster: linear, image: {name: train}, command: [python, linear.py]}
  children:
    ps: {hosts: {node1: {ansible_host: 10.0.0.1}}}
    worker:
      vars: {ansible_timeout: 30, ansible_ssh_extra_args: -o UserKnownHostsFile=~/keys/hosts}
      hosts:
        node2: {ansible_host: node2.lan, ansible_port: "2222", ansible_become: "no", ansible_password: !unsafe "a{{b"}
        node3: {ansible_connection: local}
  hosts: {builder: {ansible_ssh_private_key_file: ~/keys/more, ansible_ssh_common_args: -F none}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory with keys."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "keys").mkdir()
    for name in ("cluster", "more"):
        (tmp_path / "keys" / name).write_text("")
    return tmp_path


def write_inventory(text: str, directory: Path) -> Path:
    path = directory / "inventory.yml"
    path.write_text(text)
    return path


def test_every_connection_variable_is_read(home: Path) -> None:
    _, roles = load(write_inventory(FULL, home))
    keys = (home / "keys" / "cluster", home / "keys" / "more")
    path = str(home / "inventory.yml")
    first, second, third = (role.connection for role in roles)
    assert first == ConnectionSettings(
        "node1", Position(path, 14, 40), "10.0.0.1", None, "trainer", local=False, key_files=keys, become=True,
        proxy_jump="gate@bastion:2200", accept_new=True,
    )  # fmt: skip
    assert second == ConnectionSettings(
        "node2", Position(path, 18, 31), "node2.lan", 2222, "trainer", local=False, key_files=keys, password="a{{b",
        timeout=30.0, proxy_jump="gate@bastion:2200", known_hosts=(home / "keys" / "hosts",), accept_new=True,
    )  # fmt: skip
    assert (third.local, third.proxy_jump, third.known_hosts) == (True, None, ())
    assert [(role.local, role.where, role.address) for role in roles] == [
        (False, first.at, "10.0.0.1"),
        (False, second.at, "node2.lan"),
        (True, third.at, "127.0.0.1"),
    ]


def test_a_host_needs_no_role(home: Path) -> None:
    way = resolve_connection(load_inventory(write_inventory(FULL, home)), "builder")
    assert (way.host, way.key_files, way.ssh_config) == ("builder", (home / "keys" / "more",), Path("/dev/null"))


def test_problems_of_a_host_without_a_role_are_reported(home: Path) -> None:
    inventory = load_inventory(write_inventory(FULL, home), ["ansible_port=0", "ansible_become_method=su"])
    with pytest.raises(InvalidInput) as caught:
        resolve_connection(inventory, "builder")
    assert [str(problem.at) for problem in caught.value.problems] == ["-e ansible_become_method", "-e ansible_port"]


def connection_with(variables: str, *extra: str) -> ConnectionSettings:
    """Return the connection to a host with `variables`."""
    inventory = read_groups(parse(f"all: {{hosts: {{node1: {{{variables}}}}}}}", "i.yml"), "i.yml")
    return resolve_connection(replace(inventory, extra=parse_extra_vars(extra)), "node1")


def test_unset_variables_are_left_to_ssh() -> None:
    assert connection_with("") == ConnectionSettings(
        "node1", Position("i.yml", 1, 15), "node1", None, None, local=False
    )
    assert connection_with("").timeout == 10.0


@pytest.mark.parametrize(
    ("variables", "extra", "value"),
    [
        ("ansible_ssh_timeout: 7, ansible_timeout: 8", (), ("timeout", 7.0)),
        ('ansible_timeout: "8"', (), ("timeout", 8.0)),
        ("ansible_ssh_common_args: -o ConnectTimeout=9", (), ("timeout", 9.0)),
        ("ansible_ssh_common_args: -o ConnectTimeout=9, ansible_timeout: 8", (), ("timeout", 8.0)),
        ("ansible_ssh_common_args: -p 2201 -l other", (), ("port", 2201)),
        ("ansible_ssh_common_args: -p 2201, ansible_port: 2202", (), ("port", 2202)),
        ("ansible_ssh_args: -l one, ansible_ssh_extra_args: -l two", (), ("user", "one")),
        ("ansible_ssh_args: -p 2200, ansible_port: 22", (), ("port", 2200)),
        ("ansible_ssh_args: -o User=one, ansible_user: two", (), ("user", "one")),
        ("ansible_ssh_args: -o ConnectTimeout=9, ansible_timeout: 8", (), ("timeout", 9.0)),
        ("ansible_ssh_extra_args: -p 2201 -l one, ansible_user: two", (), ("user", "two")),
        ("ansible_ssh_args: -p 2200 -l one, ansible_port: 22, ansible_connection: local", (), ("port", 22)),
        ("ansible_user: one", ("ansible_user=two",), ("user", "two")),
        ("ansible_ssh_user: one", (), ("user", "one")),
        ("ansible_ssh_user: one, ansible_user: two", (), ("user", "one")),
        ("ansible_ssh_host: 10.0.0.1, ansible_host: 10.0.0.2", (), ("address", "10.0.0.1")),
        ("ansible_port: 2201, ansible_ssh_port: 2202", (), ("port", 2202)),
        ("ansible_ssh_host: 10.0.0.1", (), ("at", Position("i.yml", 1, 41))),
        ("ansible_ssh_common_args: ''", (), ("proxy_jump", None)),
        ("", ("ansible_password=4711",), ("password", "4711")),
        ("ansible_password: 'a b'", (), ("password", "a b")),
        ("ansible_password: one, ansible_ssh_pass: two", (), ("password", "two")),
        ('ansible_password: "{{ pw }}"', ("pw=geheim",), ("password", "geheim")),
        ("", ("ansible_become=yes",), ("become", True)),
        ("ansible_become_method: su, ansible_become_user: other", (), ("become", False)),
        ("ansible_ssh_extra_args: '-o ProxyCommand=\"nc -x gate %h %p\"'", (), ("proxy_command", "nc -x gate %h %p")),
    ],
)
def test_each_variable_is_read(variables: str, extra: tuple[str, ...], value: tuple[str, object]) -> None:
    assert getattr(connection_with(variables, *extra), value[0]) == value[1]


def test_keys_are_tried_in_the_order_in_which_ansible_passes_them(home: Path) -> None:
    (home / "keys" / "third").write_text("")
    variables = "ansible_ssh_extra_args: -i ~/keys/third, ansible_private_key_file: ~/keys/cluster"
    connection = connection_with(f"{variables}, ansible_ssh_args: -i ~/keys/more")
    assert [path.name for path in connection.key_files] == ["more", "cluster", "third"]


def test_a_local_connection_ignores_ssh_variables() -> None:
    variables = "ansible_ssh_private_key_file: /nowhere, ansible_ssh_common_args: -o StrictHostKeyChecking=no"
    assert connection_with(f"ansible_connection: local, {variables}").local
    with pytest.raises(InvalidInput):
        connection_with(variables)


def test_an_unreadable_key_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root, which tests often run as, may read everything
    with pytest.raises(InvalidInput, match="`~/keys/more` cannot be read; allow it with chmod"):
        connection_with("ansible_ssh_private_key_file: ~/keys/more")


@pytest.mark.parametrize("name", ["ansible_private_key", "ansible_ssh_private_key_passphrase"])
def test_a_key_in_the_inventory_itself_is_reported(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{name}` is not supported; ") as caught:
        connection_with(f"{name}: geheim")
    assert "geheim" not in str(caught.value)


def test_an_undefined_variable_of_a_password_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"undefined variable `pw`; define it under `vars:` or give it with `-e`"):
        connection_with('ansible_password: "{{ pw }}"')


SECRET = "geheim"
MARKS = [
    *" \t'\"`{}[]:,-#&*!|>%@?~<=", "{{", "}}", "{%", "%}", "{#", ": ", " #", "!!int ", "!vault ", "!unsafe ", "012", "yes",
    "2026-13-01", "{{ nope }}", "- ", "<<: ", "\\x", "\r", "é", "a: ", "{{ 1/0 }}", "|\n  ", "\n      ",
]  # fmt: skip
PASSWORDS = st.lists(
    st.one_of(st.sampled_from(MARKS), st.sampled_from([SECRET, " ", f" {SECRET}"])), min_size=1, max_size=7
).map("".join)


@examples(400)
@given(password=PASSWORDS, name=st.sampled_from(["ansible_password", "ansible_ssh_pass", "ansible_ssh_password"]))
def test_an_error_never_repeats_a_password(password: str, name: str) -> None:
    """No invalid password is repeated, neither by its own error nor by that of a value computed from it."""
    text = f"""\
all:
  vars:
    {name}: {password}
    tfprov:
      cluster: linear
      command: [python, "{{{{ {name} }}}}"]
      flags: {{A: "{{{{ {name} }}}}"}}
      port: 0
  children:
    worker: {{hosts: {{node1: }}}}
"""
    try:
        roles = resolve(read_groups(parse(text, "i.yml"), "i.yml"))
        message = repr(roles)
    except InvalidInput as error:
        message = str(error)
    assert SECRET not in message


@examples(200)
@given(
    password=PASSWORDS,
    form=st.sampled_from(["ansible_password={}", "ansible_password: {}", "{{ansible_password: {}}}"]),
)
def test_an_error_never_repeats_a_password_of_the_command_line(password: str, form: str) -> None:
    try:
        parse_extra_vars([form.format(password)])
        message = ""
    except InvalidInput as error:
        message = str(error)
    assert SECRET not in message


def test_no_repr_contains_the_password() -> None:
    way = connection_with(f"ansible_password: {SECRET}")
    assert way.password == SECRET
    assert SECRET not in repr(way)
