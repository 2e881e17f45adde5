"""Names and ranges of hosts at their bounds, and the machines of `--hosts`."""

from datetime import date

import pytest

from tfprov.errors import Usage
from tfprov.inventory.host_names import (
    NameKind,
    RangeError,
    SshTarget,
    check_name,
    expand,
    read_machines,
    split_port,
)
from tfprov.model.yaml_node import NOWHERE, Scalar

RANGES = {
    "n": ["n"],
    "n[1:3]": ["n1", "n2", "n3"],
    "n[:2]": ["n0", "n1", "n2"],
    "n[9:11]x": ["n9x", "n10x", "n11x"],
    "n[98:101]": ["n98", "n99", "n100", "n101"],
    "n[08:10]": ["n08", "n09", "n10"],
    "n[60000:60001]": ["n60000", "n60001"],
    "n[0:10:5]": ["n0", "n5", "n10"],
    "n[a:e:2]": ["na", "nc", "ne"],
    "n[y:C]": ["ny", "nz", "nA", "nB", "nC"],
    "[1:2]-[a:b]": ["1-a", "1-b", "2-a", "2-b"],
    "n[5:5]": ["n5"],
}
STEP = "the step of `[{}]` must be a whole number above 0"
COUNT = "`[{}]` must count from a number to a number, or from a letter to a letter"
DIGITS = "both ends of `[{}]` must have the same number of digits, because the first starts with 0"
BAD_RANGES = {
    "n[1:3": "unbalanced brackets in `n[1:3`",
    "n1:3]": "unbalanced brackets in `n1:3]`",
    "n[[1:3]": "unbalanced brackets in `n[[1:3]`",
    "n[1]": "`[1]` is not a range",
    "n[1:]": "`[1:]` is not a range",
    "n[1:3:0]": STEP.format("1:3:0"),
    "n[1:3:x]": STEP.format("1:3:x"),
    "n[1:b]": COUNT.format("1:b"),
    "n[a:2]": COUNT.format("a:2"),
    "n[aa:b]": COUNT.format("aa:b"),
    "n[²:3]": COUNT.format("²:3"),
    "n[08:100]": DIGITS.format("08:100"),
    "n[3:1]": "`[3:1]` counts backwards and stands for no host",
    "n[c:a]": "`[c:a]` counts backwards and stands for no host",
    "n[1:100002]": "`[1:100002]` stands for more than 100,000 hosts",
    "n[0:100000]": "`n[0:100000]` stands for 100,001 hosts, more than 100,000",
    "[1:1000][1:101]": "`[1:1000][1:101]` stands for 101,000 hosts, more than 100,000",
}


def test_ranges_stand_for_their_hosts_and_are_refused_beyond_their_bounds() -> None:
    assert {text: expand(text) for text in RANGES} == RANGES
    assert len(expand("[1:1000][1:100]")) == 100_000
    for text, message in BAD_RANGES.items():
        with pytest.raises(RangeError) as raised:
            expand(text)
        assert str(raised.value) == message


def test_a_port_is_split_from_a_name_an_address_or_a_range() -> None:
    split = {
        "n": ("n", None), "n:22": ("n", 22), "n[1:3]:2222": ("n[1:3]", 2222), "[fd00::1]:2222": ("fd00::1", 2222),
        "fd00::1": ("fd00::1", None), "n[1:3]": ("n[1:3]", None), "n:1234567890": ("n", 123_456_789),
        "n:2x": ("n:2x", None),
    }  # fmt: skip
    assert {text: split_port(text) for text in split} == split


PLAIN = "use at most 253 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit"
A_USER = "give the user as `ansible_user`, and the address as `ansible_host`"
SEVERAL = "write each host on a line of its own, with a `:` behind it"
INVALID = {
    "h" * 254: PLAIN, "é" * 127: PLAIN, "-h": PLAIN, "h/x": PLAIN, "h\u200b": PLAIN, "fd00::g": PLAIN,
    "me@h": A_USER, "{{ h }}": "write it out: names are no templates", "h1,h2": SEVERAL, "h1 h2": SEVERAL, "h1;h2": SEVERAL,
    "h\n": SEVERAL,
}  # fmt: skip


def named(kind: NameKind, text: str) -> tuple[str, str] | None:
    return check_name(kind, Scalar(text, NOWHERE, text))


def test_names_of_hosts_and_groups_are_checked() -> None:
    for name in ("h", "h" * 253, "é" * 126, "_h-1.x", "1", "fd00::1"):
        assert named(NameKind.HOST, name) is None, name
    for name, fix in INVALID.items():
        problem = named(NameKind.HOST, name)
        assert problem is not None, name
        assert problem[1] == fix, name
    assert named(NameKind.HOST, "-h") == ("host name `-h` is not valid", PLAIN)
    assert named(NameKind.HOST, "") == ("host name `''` is not valid", PLAIN)
    for name in ("my group", "g", "g@x+y.z-", "g" * 253):
        assert named(NameKind.GROUP, name) is None, name
    for name in ("g ", "g" * 254, "me@h,x", "fd00::1"):
        assert named(NameKind.GROUP, name) == (
            f"group name `{name[:57]}{'...' * (len(name) > 60)}` is not valid",
            PLAIN,
        )
    for data, text, what, fix in (
        (None, "", "nothing", "write a name"),
        (None, "null", "nothing", 'quote it: "null"'),
        (True, "yes", "true or false", 'quote it: "yes"'),
        (7, "7", "a number", 'quote it: "7"'),
        (7.5, "7.5", "a number", 'quote it: "7.5"'),
        (date(2026, 1, 2), "2026-01-02", "a date", 'quote it: "2026-01-02"'),
    ):
        shown = text or "''"
        message = f"host name `{shown}` is read by YAML as {what}, not as text"
        assert check_name(NameKind.HOST, Scalar(data, NOWHERE, text)) == (message, fix)
    assert check_name(NameKind.HOST, Scalar("h[1:2]", NOWHERE, "h[1:2]"), "h1") is None


def test_machines_are_read_as_ssh_names_them() -> None:
    assert read_machines(" trainer@node1,node2:2200\n a.b:1  c:65535, [fd00::1]:22 ,") == (
        SshTarget("node1", "trainer"),
        SshTarget("node2", None, 2200),
        SshTarget("a.b", None, 1),
        SshTarget("c", None, 65535),
        SshTarget("fd00::1", None, 22),
    )
    assert read_machines(" ") == ()
    for text, word in (("h:0", "h:0"), ("h:65536", "h:65536"), ("a @h", "@h"), ("m e@h -x", "-x"), ("a;b@h", "a;b@h")):
        with pytest.raises(Usage) as raised:
            read_machines(text)
        assert str(raised.value) == f"`{word}` is no machine; write `name`, `user@name` or `user@name:port`"
    with pytest.raises(Usage) as raised:
        read_machines("a b u@a")
    assert str(raised.value) == "a is set twice; give every machine once"
