"""The values and arguments that Ansible's connection variables accept, and the errors for all others."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.inventories import roles
from tfprov.errors import InvalidInput
from tfprov.model.validators import InvalidValue
from tfprov.settings.connection_vars import PARSERS, check_key_file, expand_path
from tfprov.settings.ssh_args import SshArgs

VALUES = [
    ("ansible_port", 22, 22), ("ansible_port", "2200", 2200), ("ansible_port", 1, 1), ("ansible_port", 65535, 65535),
    ("ansible_port", "65535", 65535), ("ansible_timeout", "00010", 10.0), ("ansible_timeout", 10, 10.0),
    ("ansible_timeout", "3600", 3600.0), ("ansible_timeout", 1, 1.0),
    ("ansible_become", True, True), ("ansible_become", 0, False), ("ansible_become", 1.0, True),
    *(("ansible_become", word, True) for word in ("y", "Yes", " ON ", "1", "true", "T")),
    *(("ansible_become", word, False) for word in ("n", "No", "off", "0", "FALSE", "f")),
    ("ansible_ssh_args", "", ""), ("ansible_ssh_args", "-J gate", "-J gate"), ("ansible_ssh_args", "-v\n", "-v\n"),
    ("ansible_user", "trainer", "trainer"), ("ansible_connection", "local", "local"), ("ansible_connection", "ssh", "ssh"),
    ("ansible_host", "h1.example.com", "h1.example.com"), ("ansible_host", "fe80::1", "fe80::1"),
    ("ansible_host", "10.0.0.1", "10.0.0.1"), ("ansible_password", " a b ", " a b "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), VALUES, ids=range(len(VALUES)))
def test_a_valid_variable_is_parsed(name: str, value: Any, expected: Any) -> None:
    parsed = PARSERS[name](name, value)
    assert (parsed, type(parsed)) == (expected, type(expected))


PORT = "`ansible_port` must be a port from 1 to 65535, not"
TIME = "`ansible_timeout` must be a number of seconds from 1 to 3600, not"
WRITE = "write the password, or remove it"
WRONG = [
    ("ansible_port", 0, f"{PORT} `0`", "for example `ansible_port: 22`"),
    ("ansible_port", 65536, f"{PORT} `65536`", "for example `ansible_port: 22`"),
    ("ansible_port", True, f"{PORT} `true`", "for example `ansible_port: 22`"),
    ("ansible_port", "022222", f"{PORT} `022222`", "for example `ansible_port: 22`"),
    ("ansible_port", "x", f"{PORT} `x`", "for example `ansible_port: 22`"),
    ("ansible_port", 22.0, f"{PORT} `22.0`", "for example `ansible_port: 22`"),
    ("ansible_timeout", 0, f"{TIME} `0`", "for example `ansible_timeout: 10`"),
    ("ansible_timeout", 3601, f"{TIME} `3601`", "for example `ansible_timeout: 10`"),
    ("ansible_timeout", "000022", f"{TIME} `000022`", "for example `ansible_timeout: 10`"),
    ("ansible_timeout", False, f"{TIME} `false`", "for example `ansible_timeout: 10`"),
    ("ansible_become", 2, "`ansible_become` must be true or false, not `2`", "for example `ansible_become: true`"),
    (
        "ansible_become",
        "maybe",
        "`ansible_become` must be true or false, not `maybe`",
        "for example `ansible_become: true`",
    ),
    ("ansible_ssh_args", 1, "`ansible_ssh_args` must be text, not `1`", "write a name, or quote it"),
    ("ansible_ssh_args", "a\nb", "`ansible_ssh_args` must be one line", "remove the line break"),
    ("ansible_ssh_args", "a\0", "`ansible_ssh_args` must be one line", "remove the line break"),
    ("ansible_user", "a b", "`ansible_user: a b` holds a blank or starts with a dash", "correct it"),
    ("ansible_user", "-a", "`ansible_user: -a` holds a blank or starts with a dash", "correct it"),
    ("ansible_user", "a\x07", "`ansible_user: a\\x07` holds a blank or starts with a dash", "correct it"),
    ("ansible_connection", "docker", "`ansible_connection: docker` is not supported", "use `local` or `ssh`"),
    ("ansible_host", "me@h", "`ansible_host: me@h` holds a user", "give the user as `ansible_user`"),
    ("ansible_host", "h:22", "`ansible_host: h:22` holds a port", "give the port as `ansible_port`"),
    ("ansible_password", "", "`ansible_password` must be text, not an empty text", WRITE),
    ("ansible_password", None, "`ansible_password` must be text, not nothing", WRITE),
    ("ansible_password", True, "`ansible_password` must be text, not a truth value", "quote it"),
    ("ansible_password", 12, "`ansible_password` must be text, not a number", "quote it"),
    ("ansible_password", 1.5, "`ansible_password` must be text, not a number", "quote it"),
    ("ansible_password", ["x"], "`ansible_password` must be text, not a list", WRITE),
    ("ansible_password", {"x": 1}, "`ansible_password` must be text, not a mapping", WRITE),
    ("ansible_password", "a\rb", "`ansible_password` must be one line", "remove the line break"),
]


@pytest.mark.parametrize(("name", "value", "what", "fix"), WRONG, ids=range(len(WRONG)))
def test_an_invalid_variable_is_refused(name: str, value: Any, what: str, fix: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        PARSERS[name](name, value)
    assert (str(raised.value), raised.value.fix) == (what, fix)


def test_a_key_file_is_readable_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("")
    (tmp_path / "key.pub").write_text("")
    check_key_file("-i", "~/key")
    assert expand_path("~/key") == tmp_path / "key"
    assert expand_path("~nobody-is-called-so/key") == Path("~nobody-is-called-so/key")
    for written, what, fix in (
        ("~/none", "does not exist", "correct the path"),
        ("~", "is not a file", "name the file with the private key"),
        ("~/key.pub", "is a public key", "name the private key beside it, without `.pub`"),
        ("x" * 300, "cannot be read", "allow it with chmod, or name another key"),
    ):
        with pytest.raises(InvalidValue) as raised:
            check_key_file("-i", written)
        assert str(raised.value).startswith("`-i`: `")
        assert str(raised.value).endswith(f"` {what}")
        assert raised.value.fix == fix
    if os.geteuid():  # nothing is kept from root
        (tmp_path / "key").chmod(0)
        with pytest.raises(InvalidValue, match="cannot be read"):
            check_key_file("-i", "~/key")


def parse_args(text: str, *more: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the parsed options that differ from the default, and the refused ones."""
    parsed, default = SshArgs(), vars(SshArgs())
    for arguments in (text, *more):
        parsed.add(arguments)
    options = {name: value for name, value in vars(parsed).items() if name != "refused" and value != default[name]}
    return options, [(str(refused), refused.fix) for refused in parsed.refused]


ARGS = [
    ("-p 2200", {"port": 2200}), ("-p2200 -p 22", {"port": 2200}), ("-o Port=2200", {"port": 2200}),
    ("-oPort=1 -o 'port 2'", {"port": 1}), ("-o port=65535", {"port": 65535}), ("-l me -o User=you", {"user": "me"}),
    ("-J gate", {"proxy_jump": "gate"}), ("-J me@gate:22,ssh://[::1]:2200/", {"proxy_jump": "me@gate:22,ssh://[::1]:2200/"}),
    ("-o ProxyJump=none", {"proxy_jump": "none"}), ("-J a -J b", {"proxy_jump": "a"}),
    ("-o ProxyCommand='nc %h %p'", {"proxy_command": "nc %h %p"}),
    ("-J gate -o ProxyCommand=nc", {"proxy_jump": "gate"}), ("-o ProxyCommand=nc -J gate", {"proxy_command": "nc"}),
    ("-J none -o ProxyCommand=nc", {"proxy_jump": "none", "proxy_command": "nc"}),
    ("-F none", {"ssh_config": Path("/dev/null")}), ("-F /dev/null -F /", {"ssh_config": Path("/dev/null")}),
    ("-o UserKnownHostsFile='/a /b'", {"known_hosts": (Path("/a"), Path("/b"))}),
    ("-o UserKnownHostsFile=/a -o UserKnownHostsFile=/b", {"known_hosts": (Path("/a"),)}),
    ("-o StrictHostKeyChecking=accept-new", {"accept_new": True}), ("-o StrictHostKeyChecking=YES", {"accept_new": False}),
    ("-o StrictHostKeyChecking=ask -o StrictHostKeyChecking=accept-new", {"accept_new": False}),
    ("-o ConnectTimeout=3600", {"timeout": 3600.0}), ("-o ConnectTimeout=1 -o ConnectTimeout=5", {"timeout": 1.0}),
    ("-C -q -vvv -x -T -a -A", {}), ("-vvCp22", {"port": 22}), ("", {}), ("-o ControlMaster=auto -o batchMode=yes", {}),
    ("-o ControlPath=", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ARGS, ids=range(len(ARGS)))
def test_supported_ssh_arguments_are_parsed(text: str, expected: dict[str, Any]) -> None:
    assert parse_args(text) == (expected, [])


ELSEWHERE = "put it into ~/.ssh/config"
REFUSED = [
    ("-p", "gives no value for `Port`", "add one, or remove it"),
    ("-o Port= ", "gives no value for `Port`", "add one, or remove it"),
    ("-p 0", "has the port `0`", "give one from 1 to 65535"),
    ("-p 65536", "has the port `65536`", "give one from 1 to 65535"),
    ("-p x", "has the port `x`", "give one from 1 to 65535"),
    ("-J a:b:c", "has the gateway `a:b:c`", "write `[user@]host[:port]`"),
    ("-J -a", "has the gateway `-a`", "write `[user@]host[:port]`"),
    ("-F /no/such", "names the file `/no/such`, which does not exist", "correct the path behind `-F`"),
    ("-i /no/such", "has `-i`: `/no/such` does not exist", "correct the path"),
    ("-o UserKnownHostsFile=/dev/null", "has UserKnownHostsFile=/dev/null, which stores no host keys",
     "remove it, or name a file"),
    ("-o UserKnownHostsFile='/a none'", "has UserKnownHostsFile=/a none, which stores no host keys",
     "remove it, or name a file"),
    ("-o StrictHostKeyChecking=no", "has StrictHostKeyChecking=no, which accepts any host key",
     "use `StrictHostKeyChecking=accept-new`"),
    ("-o StrictHostKeyChecking=Off", "has StrictHostKeyChecking=Off, which accepts any host key",
     "use `StrictHostKeyChecking=accept-new`"),
    ("-o StrictHostKeyChecking=x", "has StrictHostKeyChecking=x", "use `StrictHostKeyChecking=accept-new`"),
    ("-o ConnectTimeout=0", "has ConnectTimeout=0", "give a number of seconds from 1 to 3600"),
    ("-o ConnectTimeout=3601", "has ConnectTimeout=3601", "give a number of seconds from 1 to 3600"),
    ("-o ConnectTimeout=1s", "has ConnectTimeout=1s", "give a number of seconds from 1 to 3600"),
    ("-L 1:a:2", "has the option `-L`, which is not supported here", ELSEWHERE),
    ("-N", "has the option `-N`, which is not supported here", ELSEWHERE),
    ("-o Ciphers=x", "has the option `Ciphers`, which is not supported here", ELSEWHERE),
    ("-o", "has the option `-o`, which is not supported here", ELSEWHERE),
    ("gate", "holds a word that belongs to no option", "quote what has blanks in it"),
    ("-", "holds a word that belongs to no option", "quote what has blanks in it"),
    ("--", "holds a word that belongs to no option", "quote what has blanks in it"),
    ("-J 'gate", "holds a quote that is never closed", "close it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "fix"), REFUSED, ids=range(len(REFUSED)))
def test_unsupported_ssh_arguments_are_refused(text: str, what: str, fix: str) -> None:
    assert parse_args("-l me", text, "-p 7") == ({"user": "me", "port": 7}, [(what, fix)])


def messages(variables: str) -> list[str]:
    """Return the error messages about the variables of a host."""
    text = (
        "all: {vars: {tfprov: {cluster: lab, image: {name: x}, command: [x]}}}\n"
        f"worker: {{hosts: {{h1: {{ansible_host: 10.0.0.1, {variables}}}}}}}\n"
    )
    with pytest.raises(InvalidInput) as raised:
        roles(text)
    return [f"{problem.what}; {problem.fix}" for problem in raised.value.problems]


KEY_FIX = "write the key to a file, and name that as `ansible_ssh_private_key_file`"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        *((f"{name}: x", f"`{name}` is not supported; {KEY_FIX}")
          for name in ("ansible_private_key", "ansible_ssh_private_key")),
        *((f"{name}: x", f"`{name}` is not supported; give the key to the agent with ssh-add")
          for name in ("ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase")),
        ("ansible_become: true, ansible_become_method: su",
         "`ansible_become_method: su` is not supported; use `sudo`"),
        ("ansible_become: true, ansible_become_user: me",
         "`ansible_become_user: me` is not supported; use `root`, or remove it"),
        ("ansible_ssh_args: bastion",
         "`ansible_ssh_args` holds a word that belongs to no option; quote what has blanks in it"),
        ("ansible_usr: x", "unknown variable `ansible_usr`; did you mean `ansible_user`?"),
    ],
)  # fmt: skip
def test_an_unsupported_login_variable_is_reported(variables: str, message: str) -> None:
    assert messages(variables) == [message]


@pytest.mark.parametrize(
    "variables",
    [
        "ansible_scp_extra_args: x", "ansible_sftp_extra_args: x", "ansible_python_interpreter: x", "own: x",
        "ansible_become: true, ansible_become_method: ansible.builtin.sudo", "ansible_become_method: su",
        "ansible_become: true, ansible_become_method: sudo, ansible_become_user: root", "ansible_become_user: me",
    ],
)  # fmt: skip
def test_a_variable_without_effect_on_the_connection_is_allowed(variables: str) -> None:
    (role,) = roles(
        "all: {vars: {tfprov: {cluster: lab, image: {name: x}, command: [x]}}}\n"
        f"worker: {{hosts: {{h1: {{ansible_host: 10.0.0.1, {variables}}}}}}}\n"
    )
    assert role.address == "10.0.0.1"
