"""Arguments of `ssh` in an inventory are parsed as `ssh -G` parses them."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.settings.ssh_args import SshArgs

UNDERSTOOD = [
    "-J bastion",
    "-J trainer@bastion:2200,second",
    "-Jbastion -p 2201 -p 33",
    "-o ProxyJump=bastion -o ProxyJump=other",
    "-o ProxyCommand='ssh -W %h:%p -q bastion'",
    "-oProxyCommand='nc -x proxy %h %p' -l me -o User=other",
    "-o 'User me' -o Port=2202 -o connecttimeout=7 -o ConnectTimeout=9",
    '-o "UserKnownHostsFile=/keys/a /keys/b" -o UserKnownHostsFile=/keys/c',
    "-o StrictHostKeyChecking=accept-new",
    "-o StrictHostKeyChecking=yes -o StrictHostKeyChecking=accept-new",
    "-C -o ControlMaster=auto -o ControlPersist=60s -o ControlPath=/tmp/%C -o ServerAliveInterval=30 -qp 2203",
    "-vvv -T -o LogLevel=ERROR -o BatchMode=yes -o ForwardAgent=no -o TCPKeepAlive=yes",
    "-o IdentitiesOnly=yes -o identitiesonly=no",
    "-oPreferredAuthentications=publickey,password -o PreferredAuthentications=password",
    "-o HostKeyAlgorithms=ssh-ed25519,rsa-sha2-512 -4",
    "-6qC -o AddressFamily=inet",
    "-o AddressFamily=inet6 -4 -o AddressFamily=any -o IdentitiesOnly=no",
    "-46",
    "",
]


def parse(*texts: str) -> SshArgs:
    args = SshArgs()
    for text in texts:
        args.add(text)
    return args


def as_ssh_prints(args: SshArgs) -> dict[str, str | None]:
    """Return the parsed options as `ssh -G` prints them; None for unset options."""
    strict = {None: None, True: "accept-new", False: "true"}
    return {
        "user": args.user,
        "port": str(args.port) if args.port else None,
        "proxyjump": args.proxy_jump if args.proxy_jump != "none" else None,
        "proxycommand": args.proxy_command,
        "connecttimeout": f"{args.timeout:g}" if args.timeout else None,
        "userknownhostsfile": " ".join(map(str, args.known_hosts)) or None,
        "identitiesonly": {None: None, True: "yes", False: "no"}[args.identities_only],
        "preferredauthentications": ",".join(args.authentications) or None,
        "hostkeyalgorithms": args.host_key_algorithms,
        "addressfamily": args.address_family,
        "stricthostkeychecking": strict[args.accept_new],
    }


@pytest.mark.skipif(shutil.which("ssh") is None, reason="asks OpenSSH's client")
@pytest.mark.parametrize("text", UNDERSTOOD)
def test_ssh_parses_the_arguments_alike(text: str) -> None:
    def print_config(*words: str) -> dict[str, str]:
        command = ["ssh", "-G", "-F", "none", *words, "10.0.0.1"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return {line.split(" ", 1)[0]: line.split(" ", 1)[-1] for line in done.stdout.splitlines()}

    args = parse(text)
    assert not args.refused
    default, ssh = print_config(), print_config(*shlex.split(text))
    for name, value in as_ssh_prints(args).items():
        assert ssh.get(name) == (default.get(name) if value is None else value), name


def test_a_command_after_no_jump_is_a_proxy() -> None:
    """As OpenSSH since 10.3 and its backports; earlier ones ignore the command, so that the client here may do either."""
    args = parse("-o ProxyJump=none -o ProxyCommand=nc")
    assert (args.refused, args.proxy_jump, args.proxy_command) == ([], "none", "nc")


def test_key_files_and_a_config_file_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("one", "two", "config"):
        (tmp_path / name).write_text("")
    args = parse(f"-i ~/one -o IdentityFile={tmp_path}/two", "-F ~/config -F /dev/null")
    assert args.refused == []
    assert args.key_files == [tmp_path / "one", tmp_path / "two"]
    assert args.ssh_config == tmp_path / "config"
    assert parse(f"-o 'IdentityFile={tmp_path}/two {tmp_path}/none'") == SshArgs(key_files=[tmp_path / "two"])


def test_a_quote_within_a_path_is_a_part_of_it() -> None:
    assert parse('-o "UserKnownHostsFile=/a\'b"').known_hosts == (Path("/a'b"),)


def test_no_config_file_equals_an_empty_one() -> None:
    assert parse("-F none").ssh_config == Path("/dev/null")


def test_the_first_of_several_values_wins() -> None:
    args = parse("-p 2201", "-p 2202 -J bastion", "-J other")
    assert (args.port, args.proxy_jump) == (2201, "bastion")


@pytest.mark.parametrize(
    "text", ["-o StrictHostKeyChecking=no", "-o stricthostkeychecking=OFF", "-oStrictHostKeyChecking=no"]
)
def test_host_key_checking_cannot_be_turned_off(text: str) -> None:
    args = parse(text)
    assert args.accept_new is None
    assert "accepts any host key" in str(args.refused[0])


WORDS = [
    "-", "--", "-o", "-J", "-i", "-p", "-l", "-F", "-W", "-C", "-4", "-tt", "-oPort", "-oPort=", "Port", "=", " ", "'", '"',
    "\\", "none", "bastion", "StrictHostKeyChecking", "UserKnownHostsFile", "ProxyCommand", "IdentityFile", "~", "~x/y",
    "/dev/null", "22", "²", "%h", "\0", "\n", "ConnectTimeout", "a" * 300,
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from(["", " "]))
def test_any_arguments_are_parsed_or_refused(words: list[str], between: str) -> None:
    args = parse(between.join(words))
    for refused in args.refused:
        assert str(refused)
        assert refused.fix


OPTIONS_WITHOUT_MEANING = (
    "BatchMode", "Compression", "ControlMaster", "ControlPath", "ControlPersist", "ForwardAgent", "ForwardX11", "LogLevel",
    "RequestTTY", "ServerAliveCountMax", "ServerAliveInterval", "TCPKeepAlive",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", [*(f"-o {name}=x" for name in OPTIONS_WITHOUT_MEANING), *(f"-{letter}" for letter in "CqvxTaA")]
)
def test_options_without_effect_are_ignored(text: str) -> None:
    assert parse(text, "-p 2201") == SshArgs(port=2201)


@pytest.mark.parametrize("letter", "BbcDEeIiLlmOoPpQRSWwJF")
def test_the_value_of_a_short_option_may_be_the_next_word(letter: str) -> None:
    message = [str(refused) for refused in parse(f"-{letter} - -p 2201").refused]
    assert "holds a word that belongs to no option" not in message


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("-J 'x", "holds a quote that is never closed", "close it"),
        ("bastion", "holds a word that belongs to no option", "quote what has blanks in it"),
        ("-", "holds a word that belongs to no option", "quote what has blanks in it"),
        ("--", "holds a word that belongs to no option", "quote what has blanks in it"),
        ("-4g", "has the option `-g`, which is not supported here", "put it into ~/.ssh/config"),
        ("-o IdentitiesOnly=maybe", "has IdentitiesOnly=maybe", "use `yes` or `no`"),
        ("-o AddressFamily=ipv4", "has AddressFamily=ipv4", "use `inet`, `inet6` or `any`"),
        ("-o HostKeyAlgorithms='a b'", "has HostKeyAlgorithms=a b", "for example `HostKeyAlgorithms=ssh-ed25519`"),
        ("-o PreferredAuthentications=gssapi-with-mic",
         "has PreferredAuthentications=gssapi-with-mic, and tfprov supports none of them",
         "name one of publickey, password, keyboard-interactive"),
        ("-L 1:h:2", "has the option `-L`, which is not supported here", "put it into ~/.ssh/config"),
        ("-o Ciphers=x", "has the option `Ciphers`, which is not supported here", "put it into ~/.ssh/config"),
        ("-o =x", "has the option `-o`, which is not supported here", "put it into ~/.ssh/config"),
        ("-p", "gives no value for `Port`", "add one, or remove it"),
        ("-o Port=' '", "gives no value for `Port`", "add one, or remove it"),
        ("-p 0", "has the port `0`", "give one from 1 to 65535"),
        ("-p 65536", "has the port `65536`", "give one from 1 to 65535"),
        ("-p 2x", "has the port `2x`", "give one from 1 to 65535"),
        ("-J a,b@", "has the gateway `a,b@`", "write `[user@]host[:port]`"),
        ("-F /no/such", "names the file `/no/such`, which does not exist", "correct the path behind `-F`"),
        (f"-F {'x' * 256}", f"names the file `{'x' * 57}...`, which cannot be read: file name too long",
         "correct the path behind `-F`"),
        ("-o UserKnownHostsFile=/dev/null", "has UserKnownHostsFile=/dev/null, which stores no host keys",
         "remove it, or name a file"),
        ("-o UserKnownHostsFile=None", "has UserKnownHostsFile=None, which stores no host keys",
         "remove it, or name a file"),
        ("-o StrictHostKeyChecking=off", "has StrictHostKeyChecking=off, which accepts any host key",
         "use `StrictHostKeyChecking=accept-new`"),
        ("-o StrictHostKeyChecking=x", "has StrictHostKeyChecking=x", "use `StrictHostKeyChecking=accept-new`"),
        ("-o ConnectTimeout=0", "has ConnectTimeout=0", "give a number of seconds from 1 to 3600"),
        ("-o ConnectTimeout=3601", "has ConnectTimeout=3601", "give a number of seconds from 1 to 3600"),
        ("-o ConnectTimeout=1s", "has ConnectTimeout=1s", "give a number of seconds from 1 to 3600"),
    ],
)  # fmt: skip
def test_a_refused_argument_is_reported_with_a_fix(text: str, message: str, fix: str) -> None:
    assert [(str(refused), refused.fix) for refused in parse(text).refused] == [(message, fix)]


def test_ports_and_timeouts_at_their_limits_are_accepted() -> None:
    assert (parse("-p 1").port, parse("-p 65535").port) == (1, 65535)
    assert (parse("-o ConnectTimeout=1").timeout, parse("-o ConnectTimeout=3600").timeout) == (1.0, 3600.0)


@pytest.mark.parametrize(
    "gateway", ["ssh://me@bastion:22/", "[2001:db8::7]:2200", "me@10.0.0.1", "a,b:7,ssh://c", "NONE"]
)
def test_a_gateway_in_each_of_sshs_notations_is_accepted(gateway: str) -> None:
    assert parse(f"-J {gateway}") == SshArgs(proxy_jump=gateway)


@pytest.mark.parametrize("gateway", ["-x", "a b", "a:123456", "me@", "a/b", "[x]", "a,"])
def test_an_invalid_gateway_is_refused(gateway: str) -> None:
    assert [str(refused) for refused in parse(f"-J '{gateway}'").refused] == [f"has the gateway `{gateway}`"]
