"""Routes from ~/.ssh/config and the inventory: address, user, keys and gateways."""

import getpass
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.permissions import forbidden
from tfprov.errors import HostError
from tfprov.hosts.ssh.client_config import Hop, SSHTarget, route


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def hops(home: Path, text: str, address: str = "node1", **values: Any) -> tuple[Hop, ...]:
    (home / ".ssh" / "config").write_text(text)
    return route(SSHTarget("h1", address, ssh_config=home / ".ssh" / "config", **values))


def test_without_a_file_the_defaults_of_ssh_apply(home: Path) -> None:
    (hop,) = route(SSHTarget("h1", "10.0.0.1"))
    assert (hop.label, hop.address, hop.port, hop.user) == ("h1", "10.0.0.1", 22, getpass.getuser())
    assert hop.known_hosts == (
        home / ".ssh/known_hosts", home / ".ssh/known_hosts2",
        Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"),
    )  # fmt: skip
    assert route(SSHTarget("h1", "10.0.0.1", ssh_config=home / "none")) == (hop,)


def test_the_file_supplies_options_missing_in_the_inventory(home: Path) -> None:
    text = """
    Host node*
      HostName 10.0.0.%h
      User trainer
      Port 2222
      IdentityFile ~/keys/a
      IdentitiesOnly yes
      UserKnownHostsFile ~/known "/with blank/known"
      GlobalKnownHostsFile none
      HostKeyAlias the-node
    Host *
      User nobody
      IdentityFile ~/keys/b
    """
    (hop,) = hops(home, text)
    assert (hop.address, hop.user, hop.port, hop.host_key_alias) == ("10.0.0.node1", "trainer", 2222, "the-node")
    assert hop.host_key_port == 22  # as in ssh, an alias stands for the server whatever its port
    assert hop.key_files == (home / "keys/a", home / "keys/b")
    assert hop.known_hosts == (home / "known", Path("/with blank/known"))
    assert hop.identities_only


def test_the_inventory_overrides_the_file(home: Path) -> None:
    text = "Host *\n User other\n Port 1\n IdentityFile /b\n UserKnownHostsFile /c\n"
    settings: dict[str, Any] = {
        "user": "me",
        "port": 2222,
        "key_files": (Path("/a"),),
        "known_hosts": (Path("/known"),),
    }
    (hop,) = hops(home, text, **settings)
    assert hop.host_key_port == 2222
    assert (hop.user, hop.port, hop.known_hosts) == ("me", 2222, (Path("/known"),))
    assert hop.key_files == (Path("/a"), Path("/b"))


def test_tokens_in_the_names_of_known_hosts_files_are_replaced(home: Path) -> None:
    text = "HostName 10.0.0.9\nPort 2222\nUser me\nUserKnownHostsFile ~/kh/%k %d/%n-%h-%p-%r-%% ~/alias/%k\n"
    text += "GlobalKnownHostsFile /g/%h\n"
    expected = (home / "kh/10.0.0.9", home / "node1-10.0.0.9-2222-me-%", home / "alias/10.0.0.9", Path("/g/%h"))
    assert hops(home, text)[-1].known_hosts == expected
    assert hops(home, f"HostKeyAlias web\n{text}")[-1].known_hosts[0] == home / "kh/web"


def test_tokens_in_the_known_hosts_files_and_the_command_of_the_inventory_are_replaced(home: Path) -> None:
    text = "HostName 10.0.0.9\nHostKeyAlias web\nPort 2222\n"
    values: dict[str, Any] = {"known_hosts": (home / "kh/%k", home / "%h"), "proxy_command": "nc --as %n %h %p 100%%"}
    (hop,) = hops(home, text, **values)
    assert hop.known_hosts == (home / "kh/web", home / "10.0.0.9")
    assert hop.proxy_command == "nc --as node1 10.0.0.9 2222 100%"


def test_variables_of_the_environment_are_replaced_in_names_of_files(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    monkeypatch.delenv("NONE", raising=False)
    (hop,) = hops(home, "IdentityFile ${KEYS}/a\nIdentityFile ${NONE}/$KEYS\nUserKnownHostsFile ${HOME}/known\n")
    assert hop.key_files == (Path("/keys/a"), Path("${NONE}/$KEYS"))
    assert hop.known_hosts[0] == home / "known"


def test_gateways_come_first_and_have_their_own_stanzas(home: Path) -> None:
    text = """
    Host node1
      ProxyJump me@one,[2001:db8::2]:2222
    Host one
      HostName 10.0.0.9
      User ignored
      ProxyJump ssh://zero:22
    Host zero 2001:*
      User gate
    """
    route_hops = hops(home, text, user="trainer", port=9, key_files=(Path("/key"),))
    assert [(hop.label, hop.user, hop.endpoint) for hop in route_hops] == [
        ("h1: gateway zero", "gate", "zero:22"),
        ("h1: gateway one", "me", "10.0.0.9:22"),
        ("h1: gateway 2001:db8::2", "gate", "[2001:db8::2]:2222"),
        ("h1", "trainer", "node1:9"),
    ]
    assert [hop.key_files for hop in route_hops] == [(), (), (), (Path("/key"),)]


def test_a_gateway_for_all_hosts_is_not_its_own_gateway(home: Path) -> None:
    text = "Host bastion\n HostName 10.0.0.9\nHost *\n ProxyJump bastion\n"
    assert [hop.address for hop in hops(home, text)] == ["10.0.0.9", "node1"]
    assert [hop.address for hop in hops(home, "Host *\n ProxyJump bastion\n", "bastion")] == ["bastion"]


def test_a_proxy_jump_of_the_inventory_replaces_that_of_the_file(home: Path) -> None:
    text = "Host *\n ProxyJump bastion\n"
    assert [hop.address for hop in hops(home, text, proxy_jump="none")] == ["node1"]
    assert [hop.address for hop in hops(home, "", proxy_jump="gw")] == ["gw", "node1"]


def test_a_proxy_command_gets_the_final_values(home: Path) -> None:
    text = "Host *\n Port 1\n ProxyCommand nc -x %r %h %p\n"
    (hop,) = hops(home, text, port=2222, user="me")
    assert hop.proxy_command == "nc -x me node1 2222"
    assert hop.where == "node1:2222 (through `nc -x me node1 2222`)"
    assert hops(home, "Host *\n ProxyCommand none\n")[0].proxy_command is None
    assert hops(home, text, proxy_command="mine %h")[0].proxy_command == "mine node1"
    assert hops(home, "Host node1\n ProxyJump gw\nHost *\n ProxyCommand x\n")[-1].proxy_command is None


def test_the_first_of_proxy_command_and_proxy_jump_wins(home: Path) -> None:
    text = "Host *\n ProxyJump bastion\n"
    assert [hop.where for hop in hops(home, text, proxy_command="mine")] == ["node1:22 (through `mine`)"]
    assert [hop.where for hop in hops(home, f"Host node1\n ProxyCommand none\n{text}")] == ["node1:22"]
    assert [hop.where for hop in hops(home, "ProxyJump none\nHost *\n ProxyCommand x\n")] == ["node1:22 (through `x`)"]


def test_includes_are_read_and_do_not_end_the_stanza(home: Path) -> None:
    (home / ".ssh" / "conf.d").mkdir()
    (home / ".ssh" / "conf.d" / "a").write_text("Host other\n User wrong\nHost node1\n Port 2222\n")
    (home / ".ssh" / "conf.d" / "b").write_text("Host node1\n IdentityFile /k\n")
    (hop,) = hops(home, "Include conf.d/* none\nInclude = ~/missing\nUser right\nHost x\n User no\n")
    assert (hop.port, hop.user, hop.key_files) == (2222, "right", (Path("/k"),))


def test_keywords_of_match_may_have_capitals(home: Path) -> None:
    text = "Match Host other\n Port 1\nMatch !Host node1 User x\n Port 2\nMatch OriginalHost node1 # mine\n Port 3\n"
    assert hops(home, text)[0].port == 3
    assert hops(home, "Match Final all\n Port 4\n")[0].port == 4
    assert hops(home, "Match ALL\n Port 5\n")[0].port == 5


def test_a_comment_may_follow_an_option(home: Path) -> None:
    text = """
    Host other # not node1
      User wrong
    # Host node1 # none
    Host node1  # the GPU
      User me # not you
      IdentityFile "/a # b" # mine
      IdentityFile /c#d
      Port 2222 # x
      ProxyCommand nc %h %p # it has a shell
    """
    (hop,) = hops(home, text)
    assert (hop.user, hop.port, hop.key_files) == ("me", 2222, (Path("/a # b"), Path("/c#d")))
    assert hop.proxy_command == "nc node1 2222 # it has a shell"


def test_a_tab_may_follow_a_keyword(home: Path) -> None:
    (home / ".ssh" / "other").write_text("Host other\n User wrong\n")
    (hop,) = hops(home, "Host\tnode2\n\tInclude\tother\n\tPort\t1\nHost\tnode1\n\tInclude\tother\n\tUser\tright\n")
    assert (hop.user, hop.port) == ("right", 22)
    (home / ".ssh" / "all").write_text("Port 2222\n")
    assert hops(home, "Include\tall\n")[0].port == 2222


def test_a_directory_among_the_includes_is_skipped(home: Path) -> None:
    (home / ".ssh" / "conf.d" / "old").mkdir(parents=True)
    (home / ".ssh" / "conf.d" / "a").write_text("Port 2222\n")
    assert hops(home, "Include conf.d/*\n")[0].port == 2222


def test_an_include_in_a_block_applies_to_its_hosts_only(home: Path) -> None:
    (home / ".ssh" / "gpus").write_text(
        "Port 2222\nHost *\n User gpu\nHost node1 node2\n IdentityFile /k\nInclude deep\n"
    )
    (home / ".ssh" / "deep").write_text("Match all\n IdentityFile /deep\nMatch originalhost node2\n IdentityFile /no\n")
    (home / ".ssh" / "last").write_text("Host other\n Port 1\n")
    (home / ".ssh" / "more").write_text("IdentitiesOnly yes\n")
    for block in ("Host node1", "Match localuser * originalhost n*1", "Match host node1"):
        text = f"{block}\n Include gpus last more\nHost *\n User me\n Port 22\n"
        (hop,), (other,) = hops(home, text), hops(home, text, "node2")
        assert (hop.port, hop.user, hop.key_files) == (2222, "gpu", (Path("/k"), Path("/deep")))
        assert (other.port, other.user, other.key_files) == (22, "me", ())
        assert (hop.identities_only, other.identities_only) == (True, False)


def test_a_relative_include_is_one_in_the_directory_of_the_user_as_in_ssh(home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "lab.d").mkdir()
    (home / ".ssh" / "lab.d" / "all").write_text("Include gpus\nPort 2222\n")
    (home / ".ssh" / "gpus").write_text("User right\n")
    (home / ".ssh" / "lab.d" / "gpus").write_text("User wrong\n")
    (tmp_path / "lab").write_text("Include lab.d/all\n")
    (hop,) = route(SSHTarget("h1", "node1", ssh_config=tmp_path / "lab"))
    assert (hop.user, hop.port) == ("right", 2222)


@pytest.mark.parametrize(
    ("block", "port"),
    [
        ("Match tagged gpu", 22),
        ("Match !tagged gpu", 1),
        ("Match !Tagged gpu originalhost node1", 1),
        ("Match originalhost node1 tagged gpu", 22),
        ("Match localnetwork 10.0.0.0/8", 22),
        ("Match !localnetwork 10.0.0.0/8", 22),
        ("Match host node1 version OpenSSH_10.*", 22),
        ("Match sessiontype shell", 22),
        ('Match command "rsync *" user me', 22),
    ],
)
def test_a_criterion_that_tfprov_cannot_judge_is_not_fulfilled_and_no_connection_has_a_tag(
    home: Path, block: str, port: int
) -> None:
    (home / ".ssh" / "user").write_text("User included\n")
    (hop,) = hops(home, f"{block}\n Include user\n Port 1\nHost node1\n HostName 10.0.0.9\n")
    assert (hop.port, hop.user == "included", hop.address) == (port, port == 1, "10.0.0.9")


def test_the_systems_file_follows_that_of_the_user(home: Path, tmp_path: Path) -> None:
    system = tmp_path / "etc" / "ssh_config"
    (system.parent / "ssh_config.d").mkdir(parents=True)
    system.write_text("User staff\nInclude ssh_config.d/*.conf\nHost node1\n Port 2222\n IdentityFile /etc/key\n")
    (system.parent / "ssh_config.d" / "lab.conf").write_text("Host node*\n ProxyJump bastion\n")
    user = home / ".ssh" / "config"
    user.write_text("Host node1\n User me\n IdentityFile /key\nHost bastion\n Port 23\nHost other\n Port 1\n")
    target = SSHTarget("h1", "node1", user_config=user, system_config=system)
    bastion, host = route(target)
    assert (bastion.address, bastion.port, bastion.user) == ("bastion", 23, "staff")
    assert (host.user, host.port, host.key_files) == ("me", 2222, (Path("/key"), Path("/etc/key")))
    user.unlink()
    assert [hop.user for hop in route(target)] == ["staff", "staff"]
    (tmp_path / "own").write_text("User own\n")
    (alone,) = route(SSHTarget("h1", "node1", ssh_config=tmp_path / "own", user_config=user, system_config=system))
    assert (alone.user, alone.port) == ("own", 22), "as with -F"


def test_a_mistake_in_the_systems_file_is_named_with_that_file(home: Path, tmp_path: Path) -> None:
    user = home / ".ssh" / "config"
    target = SSHTarget("h1", "node1", user_config=user, system_config=tmp_path / "ssh_config")
    (tmp_path / "ssh_config").write_text("User\n")
    with pytest.raises(HostError, match=rf"^h1: {tmp_path}/ssh_config: Unparsable line User; correct the file"):
        route(target)
    (tmp_path / "ssh_config").write_text("User me\n")
    user.write_text("Port\n")
    with pytest.raises(HostError, match=rf"^h1: {user}: Unparsable line Port; correct the file"):
        route(target)


@pytest.mark.parametrize(
    ("value", "files"),
    [
        ('"/a b/kh"', ["/a b/kh"]),
        ('"/a/kh1" "/a/kh2"', ["/a/kh1", "/a/kh2"]),
        ('/a/kh1 "/a b/kh2"', ["/a/kh1", "/a b/kh2"]),
        ('"/a b/%h" none', ["/a b/node1"]),
    ],
)
def test_quotes_in_the_names_of_known_hosts_files_are_those_of_one_file(
    home: Path, value: str, files: list[str]
) -> None:
    none = "GlobalKnownHostsFile none\n"
    assert hops(home, f"UserKnownHostsFile {value}\n{none}")[0].known_hosts == tuple(map(Path, files))
    system = hops(home, f"UserKnownHostsFile none\nGlobalKnownHostsFile = {value.replace('%h', 'node1')}\n")[0]
    assert system.known_hosts == tuple(map(Path, files))


def test_the_agent_of_a_host_is_that_of_ssh_config(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN", "/run/user")
    text = """
    Host one
      IdentityAgent "~/Group Containers/agent.sock"
    Host two
      IdentityAgent %d/%n-%h-%p-%i
      HostName 10.0.0.9
    Host three
      IdentityAgent ${RUN}/agent
    Host four
      IdentityAgent $AGENT
    Host five
      IdentityAgent none
    Host six
      IdentityAgent SSH_AUTH_SOCK
      ProxyJump one
    """
    names = {"one", "two", "three", "four", "five", "six", "seven"}
    assert {name: hops(home, text, name)[-1].identity_agent for name in names} == {
        "one": str(home / "Group Containers" / "agent.sock"),
        "two": f"{home}/two-10.0.0.9-22-{os.getuid()}",
        "three": "/run/user/agent",
        "four": "$AGENT",
        "five": "none",
        "six": "SSH_AUTH_SOCK",
        "seven": "SSH_AUTH_SOCK",
    }
    assert hops(home, text, "six")[0].identity_agent == str(home / "Group Containers" / "agent.sock")


def test_circular_includes_end(home: Path) -> None:
    assert hops(home, "Include config\nUser me\n")[0].user == "me"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User\n", "Unparsable line User"),
        ("Port many\n", "invalid literal"),
        ("Match moonphase full\n Port 1\n", "`Match moonphase` is not supported"),
        ("Match host\n Port 1\n", "Missing parameter"),
        ("ProxyJump :22\n", "ProxyJump :22 is not [user@]host[:port]"),
        ("ProxyJump gw:ssh\n", "is not [user@]host[:port]"),
        ("Host node1\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump a\n", "in a circle"),
        ('UserKnownHostsFile "open\n', "No closing quotation"),
    ],
)
def test_an_invalid_file_is_named_in_the_error(home: Path, text: str, expected: str) -> None:
    with pytest.raises(HostError) as caught:
        hops(home, text)
    assert str(caught.value).startswith(f"h1: {home / '.ssh' / 'config'}: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_is_an_error_and_invalid_utf_8_is_not(home: Path) -> None:
    with pytest.raises(HostError, match="Is a directory"):
        route(SSHTarget("h1", "x", ssh_config=home))
    (home / "config").write_bytes(b"# \xff\nUser me\n")
    assert route(SSHTarget("h1", "x", ssh_config=home / "config"))[0].user == "me"


def test_a_file_that_may_not_be_read_is_one_line_with_the_fix(home: Path) -> None:
    path = home / ".ssh" / "included"
    path.write_text("Port 2222")
    error = rf"^h1: {path}: Permission denied; give this user access to it$"
    with forbidden(path), pytest.raises(HostError, match=error):
        hops(home, f"Include {path}")
