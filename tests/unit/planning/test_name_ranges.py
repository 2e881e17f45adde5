"""Names of many tasks and hosts as ranges."""

import pytest

from tfprov.planning.name_ranges import host_names, ranges
from tfprov.planning.plan_text import join_names


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["node17", "node18", "node19"], "node[17:19]"),
        (["node9", "node10", "node11"], "node[9:11]"),
        (["gpu-1.lab", "gpu-3.lab"], "gpu-[1,3].lab"),
        (["a"], "a"),
        (["a", "b", "c", "d", "e", "f"], "a, b, c, d and 2 more"),
        (["n1", "m2"], "m2, n1"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1:2]"),
        (["fe80::1", "fe80::2", "fe80::9"], "fe80::[1-2,9]"),
        (["fe80::1", "fe80::a", "fe80::b"], "fe80::1, fe80::a, fe80::b"),
        (["node098", "node099", "node100"], "node[098:100]"),
        (["node1", "node01", "node2"], "node01, node1, node2"),
        (["n0", "n1", "n10"], "n[0-1,10]"),
        (["n00", "n01", "n10"], "n[00-01,10]"),
        (["n01", "n03", "n10"], "n[01,03,10]"),
        (["a1", "a2", "b1", "b2", "gpu"], "a[1:2], b[1:2], gpu"),
        (["gpu", "gpu1", "gpu2"], "gpu, gpu[1:2]"),
        (["gpu", "gpu1"], "gpu, gpu1"),
        ([f"{rack}{n}" for rack in "abcdef" for n in range(1, 4)], "a[1:3], b[1:3], c[1:3], d[1:3] and 6 more"),
        ([f"n{n}" for n in range(0, 100, 2)], "n[0,2,4,6 and 46 more]"),
        (["n" + "9" * 5000, "n" + "9" * 4999 + "8"], "n" + "9" * 4982 + "[" + "9" * 17 + "8:" + "9" * 18 + "]"),
    ],
)
def test_hosts_are_named_as_ranges(names: list[str], shown: str) -> None:
    assert host_names(names) == shown


def test_indexes_are_named_as_ranges() -> None:
    assert ranges(["0", "1", "2", "4", "10", "9"]) == "0-2,4,9-10"
    assert ranges(map(str, range(0, 20, 2)), limit=3) == "0,2,4 and 7 more"
    assert ranges([""]) == ""


@pytest.mark.parametrize(
    ("names", "limit", "text"),
    [("", 2, ""), ("a", 1, "a"), ("ab", 1, "a and 1 more"), ("ab", 2, "a, b"), ("abcd", 2, "a, b and 2 more")],
)
def test_the_first_names_are_written_and_the_others_are_counted(names: str, limit: int, text: str) -> None:
    assert join_names(list(names), limit) == text
