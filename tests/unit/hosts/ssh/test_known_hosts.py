"""known_hosts: any text can be parsed, and keys are checked as by OpenSSH."""

import base64
import hmac
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.errors import Unreachable
from tfprov.hosts.ssh.client_config import SSHTarget, route
from tfprov.hosts.ssh.host_keys import HostKeyPolicy, UnknownHostKey, order_algorithms
from tfprov.hosts.ssh.known_hosts import (
    KeyStatus,
    KnownHosts,
    add_key,
    check_key,
    fingerprint,
    known_hosts_name,
    known_key_types,
    parse_entries,
    read_known_hosts,
)

FILE = Path("known_hosts")
KIND = "ssh-ed25519"
KEY, OTHER = b"\0\0\0\x0bssh-ed25519key", b"\0\0\0\x0bssh-ed25519other"
NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
PORTS = st.integers(1, 65535)
KEYS = st.binary(min_size=1, max_size=60)


class Key:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_name(self) -> str:
        return KIND

    def asbytes(self) -> bytes:
        return self.data


def line(names: str, key: bytes = KEY, kind: str = KIND, marker: str = "") -> str:
    return f"{marker} {names} {kind} {base64.b64encode(key).decode()} a comment".strip()


def hashed(name: str, salt: bytes = b"salt") -> str:
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def status(text: str, address: str = "h1", port: int = 22, key: bytes = KEY, kind: str = KIND) -> KeyStatus:
    return check_key(KnownHosts(parse_entries(text, FILE)), address, port, kind, key)[0]


@given(st.text())
def test_any_text_can_be_parsed_and_checked(text: str) -> None:
    assert status(text) in KeyStatus


@given(st.text(alphabet="@|1!*?[]:,# \t\n=abAB09-certauthorityevokd", max_size=200))
def test_almost_valid_text_can_be_parsed_and_checked(text: str) -> None:
    status(text)
    status(f"{text}\n{line(text.strip() or 'x')}")


@given(NAMES, PORTS, KEYS, st.booleans())
def test_a_key_is_known_only_by_its_listed_name(name: str, port: int, key: bytes, is_hashed: bool) -> None:
    written = hashed(known_hosts_name(name, port)) if is_hashed else known_hosts_name(name, port)
    text = f"nonsense\n{line(written, key)}\n"
    assert status(text, name, port, key) is KeyStatus.KNOWN
    assert status(text, name, port, key + b"x") is KeyStatus.CHANGED
    assert status(text, f"{name}x", port, key) is KeyStatus.UNKNOWN


@pytest.mark.parametrize(
    ("pattern", "address", "port", "matches"),
    [
        ("h1,h2", "h2", 22, True),
        ("h1,h2", "h3", 22, False),
        ("H1.Example", "h1.example", 22, True),
        ("h1.example", "H1.EXAMPLE", 22, True),
        ("*.example", "a.b.example", 22, True),
        ("h?", "h1", 22, True),
        ("h?", "h12", 22, False),
        ("*,!h1", "h1", 22, False),
        ("!h1,*", "h1", 22, False),
        ("*,!h2", "h1", 22, True),
        ("!h1", "h2", 22, False),
        ("[h1]:2222", "h1", 2222, True),
        ("[h1]:2222", "h1", 22, False),
        ("[*.example]:*", "a.example", 2222, True),
        ("[h1]:22", "h1", 22, False),
        ("h1", "h1", 2222, True),  # OpenSSH: a line without a port vouches for the same key at any
        ("2001:db8::1", "2001:db8::1", 22, True),
        ("[2001:db8::1]:2222", "2001:db8::1", 2222, True),
        ("a.c", "abc", 22, False),
        ("|1|c2FsdA==|AAAA", "h1", 22, False),
        ("|1|not base64|!", "h1", 22, False),
        ("|2|x|y", "h1", 22, False),
    ],
)
def test_patterns(pattern: str, address: str, port: int, matches: bool) -> None:
    assert status(line(pattern), address, port) is (KeyStatus.KNOWN if matches else KeyStatus.UNKNOWN)


def test_a_key_at_another_port_is_not_changed_by_a_line_without_port() -> None:
    assert status(line("h1"), "h1", 2222, OTHER) is KeyStatus.UNKNOWN


def test_a_changed_key_is_refused_under_an_alias_at_any_port(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"{line('web')}\n")
    (tmp_path / "config").write_text("Host h1\n HostKeyAlias web\n Port 2222\n")
    (hop,) = route(SSHTarget("h1", "h1", ssh_config=tmp_path / "config", known_hosts=(tmp_path / "known",)))
    policy = HostKeyPolicy.load(hop, accept_new=True)
    policy.missing_host_key(None, "h1", Key(KEY))
    with pytest.raises(Unreachable, match="THE HOST KEY HAS CHANGED"):
        policy.missing_host_key(None, "h1", Key(OTHER))
    assert (tmp_path / "known").read_text() == f"{line('web')}\n"


@pytest.mark.parametrize("accept_new", [False, True])
def test_without_any_file_no_key_can_be_known_or_recorded(tmp_path: Path, accept_new: bool) -> None:
    (tmp_path / "config").write_text("UserKnownHostsFile none\nGlobalKnownHostsFile none\n")
    (hop,) = route(SSHTarget("h1", "h1", ssh_config=tmp_path / "config"))
    policy = HostKeyPolicy.load(hop, accept_new=accept_new)
    with pytest.raises(
        Unreachable, match=r"^h1: no file may have its host key .*; name one there as UserKnown"
    ) as caught:
        policy.missing_host_key(None, "h1", Key(KEY))
    assert not isinstance(caught.value, UnknownHostKey), "there is no file to record it in"


def test_a_key_of_an_unlisted_type_counts_as_changed() -> None:
    text = line("h1", b"rsa", "ssh-rsa")
    assert status(text) is KeyStatus.CHANGED
    assert status(f"{text}\n{line('h1')}") is KeyStatus.KNOWN


def test_a_revoked_key_is_revoked_even_if_listed_elsewhere() -> None:
    revoked = line("*", marker="@revoked")
    for text in (f"{line('h1')}\n{revoked}", f"{revoked}\n{line('h1')}"):
        assert status(text) is KeyStatus.REVOKED
        assert status(text, port=2222) is KeyStatus.REVOKED
    assert status(f"{revoked}\n{line('h1', OTHER)}", key=OTHER) is KeyStatus.KNOWN
    assert status(line("other", marker="@revoked")) is KeyStatus.UNKNOWN


def test_a_certificate_authority_alone_does_not_make_a_key_known() -> None:
    authority = line("*", marker="@cert-authority")
    assert status(authority) is KeyStatus.CERTIFIED
    assert status(f"{authority}\n{line('h1')}") is KeyStatus.KNOWN
    assert status(f"{authority}\n{line('h1', OTHER)}") is KeyStatus.CHANGED


def test_the_deciding_line_is_returned() -> None:
    known = KnownHosts(parse_entries(f"# comment\n\n{line('h1', OTHER)}", FILE))
    assert [entry.location for entry in known.lines] == ["known_hosts:3"]
    assert check_key(known, "h1", 22, KIND, KEY)[1] is known.lines[0]


def test_algorithms_of_known_keys_are_negotiated_first() -> None:
    known = KnownHosts(parse_entries(f"{line('h1', b'x', 'ssh-rsa')}\n{line('h2')}", FILE))
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    assert order_algorithms(known_key_types(known, "h1", 22), offered) == (*offered[2:], *offered[:2])
    assert order_algorithms(known_key_types(known, "h2", 22), offered) == offered
    assert order_algorithms(known_key_types(known, "h3", 22), offered) == offered


def test_the_fingerprint_is_that_of_openssh() -> None:
    # As printed by `ssh-keygen -lf`.
    key = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIHUTE2w4pd14yqYvP+Ef+YfTh2mvU9OtYdm5JqPW9fNb")
    assert fingerprint(key).startswith("SHA256:")
    assert len(fingerprint(key)) == len("SHA256:") + 43


# -- files ------------------------------------------------------------------------------------------------------------


def test_missing_files_and_invalid_utf_8_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\xff\xfe garbage\n" + line("h1").encode())
    known = read_known_hosts([tmp_path / "none", tmp_path / "one"])
    assert [entry.patterns for entry in known.lines] == [("h1",)]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("h1"))
    first = read_known_hosts([file])
    assert read_known_hosts([file]) is first
    add_key(file, "h2", 22, KIND, KEY)
    assert check_key(read_known_hosts([file]), "h2", 22, KIND, KEY)[0] is KeyStatus.KNOWN


@given(st.lists(st.tuples(NAMES, PORTS, KEYS), max_size=8), st.sampled_from(["", "# no line end", "x y z\n"]))
def test_added_keys_are_known_and_earlier_lines_stay(
    tmp_path_factory: pytest.TempPathFactory, hosts: list[tuple[str, int, bytes]], before: str
) -> None:
    file = tmp_path_factory.mktemp("ssh") / "new" / "known_hosts"
    file.parent.mkdir()
    file.write_text(before)
    accepted: dict[tuple[str, int], bytes] = {}
    for name, port, key in hosts:
        key_status, _ = add_key(file, name, port, KIND, key)
        first = accepted.setdefault((name, port), key)
        bare = accepted.get((name, 22))
        assert key_status is (KeyStatus.KNOWN if key in (first, bare) else KeyStatus.CHANGED)
    text = file.read_text()
    assert text.startswith(before)
    for (name, port), key in accepted.items():
        assert status(text, name, port, key) is KeyStatus.KNOWN


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    add_key(tmp_path / "new" / "known_hosts", "h1", 22, KIND, KEY)
    assert stat.S_IMODE((tmp_path / "new" / "known_hosts").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "old").touch(mode=0o644)
    add_key(tmp_path / "old", "h1", 22, KIND, KEY)
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o644


def test_concurrent_additions_write_whole_lines_and_one_key_per_host(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_key(file, f"h{number % 10}", 22, KIND, KEY), range(80)))
        rivals = list(pool.map(lambda number: add_key(file, "rival", 22, KIND, b"%d" % number), range(8)))
    assert sorted(file.read_text().splitlines())[:10] == sorted(
        f"h{n} {KIND} {base64.b64encode(KEY).decode()}" for n in range(10)
    )
    assert len(file.read_text().splitlines()) == 11
    assert [key_status for key_status, _ in rivals].count(KeyStatus.KNOWN) == 1
