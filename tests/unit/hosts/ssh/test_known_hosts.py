"""known_hosts: any text can be read, and what it says about a host is what OpenSSH would say."""

import base64
import hmac
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.hosts.ssh.host_keys import known_first
from tfprov.hosts.ssh.known_hosts import Verdict, fingerprint, judge, kinds, listed, parse, read, record

FILE = Path("known_hosts")
KIND = "ssh-ed25519"
KEY, OTHER = b"\0\0\0\x0bssh-ed25519key", b"\0\0\0\x0bssh-ed25519other"
NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
PORTS = st.integers(1, 65535)
KEYS = st.binary(min_size=1, max_size=60)


def line(names: str, key: bytes = KEY, kind: str = KIND, marker: str = "") -> str:
    return f"{marker} {names} {kind} {base64.b64encode(key).decode()} a comment".strip()


def hashed(name: str, salt: bytes = b"salt") -> str:
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def verdict(text: str, address: str = "h1", port: int = 22, key: bytes = KEY, kind: str = KIND) -> Verdict:
    return judge(tuple(parse(text, FILE)), address, port, kind, key)[0]


@given(st.text())
def test_any_text_can_be_read_and_judged(text: str) -> None:
    assert verdict(text) in Verdict


@given(st.text(alphabet="@|1!*?[]:,# \t\n=abAB09-certauthorityevokd", max_size=200))
def test_almost_valid_text_can_be_read_and_judged(text: str) -> None:
    verdict(text)
    verdict(f"{text}\n{line(text.strip() or 'x')}")


@given(NAMES, PORTS, KEYS, st.booleans())
def test_a_key_is_known_under_the_name_it_was_listed_with(name: str, port: int, key: bytes, is_hashed: bool) -> None:
    written = hashed(listed(name, port)) if is_hashed else listed(name, port)
    text = f"nonsense\n{line(written, key)}\n"
    assert verdict(text, name, port, key) is Verdict.KNOWN
    assert verdict(text, name, port, key + b"x") is Verdict.CHANGED
    assert verdict(text, f"{name}x", port, key) is Verdict.UNKNOWN


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
    assert verdict(line(pattern), address, port) is (Verdict.KNOWN if matches else Verdict.UNKNOWN)


def test_a_line_without_a_port_is_no_reason_to_call_a_key_at_another_port_changed() -> None:
    assert verdict(line("h1"), "h1", 2222, OTHER) is Verdict.UNKNOWN


def test_a_key_of_another_kind_than_the_known_one_counts_as_changed() -> None:
    text = line("h1", b"rsa", "ssh-rsa")
    assert verdict(text) is Verdict.CHANGED
    assert verdict(f"{text}\n{line('h1')}") is Verdict.KNOWN


def test_a_revoked_key_stays_revoked_wherever_else_it_stands() -> None:
    revoked = line("*", marker="@revoked")
    for text in (f"{line('h1')}\n{revoked}", f"{revoked}\n{line('h1')}"):
        assert verdict(text) is Verdict.REVOKED
        assert verdict(text, port=2222) is Verdict.REVOKED
    assert verdict(f"{revoked}\n{line('h1', OTHER)}", key=OTHER) is Verdict.KNOWN
    assert verdict(line("other", marker="@revoked")) is Verdict.UNKNOWN


def test_an_authority_alone_does_not_make_a_key_known() -> None:
    authority = line("*", marker="@cert-authority")
    assert verdict(authority) is Verdict.CERTIFIED
    assert verdict(f"{authority}\n{line('h1')}") is Verdict.KNOWN
    assert verdict(f"{authority}\n{line('h1', OTHER)}") is Verdict.CHANGED


def test_the_line_that_decided_is_named() -> None:
    entries = tuple(parse(f"# comment\n\n{line('h1', OTHER)}", FILE))
    assert [entry.place for entry in entries] == ["known_hosts:3"]
    assert judge(entries, "h1", 22, KIND, KEY)[1] is entries[0]


def test_the_kinds_that_are_known_are_asked_for_first() -> None:
    entries = tuple(parse(f"{line('h1', b'x', 'ssh-rsa')}\n{line('h2')}", FILE))
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    assert known_first(kinds(entries, "h1", 22), offered) == (*offered[2:], *offered[:2])
    assert known_first(kinds(entries, "h2", 22), offered) == offered
    assert known_first(kinds(entries, "h3", 22), offered) == offered


def test_the_fingerprint_is_openssh_s() -> None:
    # ssh-keygen -lf of this key says the same.
    key = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIHUTE2w4pd14yqYvP+Ef+YfTh2mvU9OtYdm5JqPW9fNb")
    assert fingerprint(key).startswith("SHA256:")
    assert len(fingerprint(key)) == len("SHA256:") + 43


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_that_are_missing_are_no_problem_and_bytes_of_any_kind_neither(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\xff\xfe garbage\n" + line("h1").encode())
    found = read([tmp_path / "none", tmp_path / "one"])
    assert [entry.patterns for entry in found] == [("h1",)]


@given(st.lists(st.tuples(NAMES, PORTS, KEYS), max_size=8), st.sampled_from(["", "# no line end", "x y z\n"]))
def test_what_is_recorded_is_known_and_everything_before_stays(
    tmp_path_factory: pytest.TempPathFactory, hosts: list[tuple[str, int, bytes]], before: str
) -> None:
    file = tmp_path_factory.mktemp("ssh") / "new" / "known_hosts"
    file.parent.mkdir()
    file.write_text(before)
    accepted: dict[tuple[str, int], bytes] = {}
    for name, port, key in hosts:
        said, _ = record(file, name, port, KIND, key)
        first = accepted.setdefault((name, port), key)
        bare = accepted.get((name, 22))
        assert said is (Verdict.KNOWN if key in (first, bare) else Verdict.CHANGED)
    text = file.read_text()
    assert text.startswith(before)
    for (name, port), key in accepted.items():
        assert verdict(text, name, port, key) is Verdict.KNOWN


def test_a_new_file_is_the_owners_alone_and_the_mode_of_an_old_one_stays(tmp_path: Path) -> None:
    record(tmp_path / "new" / "known_hosts", "h1", 22, KIND, KEY)
    assert stat.S_IMODE((tmp_path / "new" / "known_hosts").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "old").touch(mode=0o644)
    record(tmp_path / "old", "h1", 22, KIND, KEY)
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o644


def test_first_contacts_at_once_leave_whole_lines_and_one_key(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: record(file, f"h{number % 10}", 22, KIND, KEY), range(80)))
        rivals = list(pool.map(lambda number: record(file, "rival", 22, KIND, b"%d" % number), range(8)))
    assert sorted(file.read_text().splitlines())[:10] == sorted(
        f"h{n} {KIND} {base64.b64encode(KEY).decode()}" for n in range(10)
    )
    assert len(file.read_text().splitlines()) == 11
    assert [said for said, _ in rivals].count(Verdict.KNOWN) == 1
