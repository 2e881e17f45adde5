"""INI inventories: values as in Ansible, and problems with line and column."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tfprov.errors import InvalidInput, Position
from tfprov.inventory.builder import InventoryBuilder
from tfprov.inventory.ini_source import add_ini
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain
from tfprov.settings.load import load_inventory


def read(text: str) -> tuple[Inventory, list[str]]:
    builder = InventoryBuilder()
    add_ini(builder, text, "i.ini")
    inventory = builder.inventory("i.ini")
    return inventory, [str(problem) for problem in builder.problems]


def good(text: str) -> Inventory:
    inventory, problems = read(text)
    assert problems == []
    return inventory


VALUES: Mapping[str, tuple[str, Any]] = {
    "a number": ("8080", 8080),
    "an octal number is text": ("010", "010"),
    "a quoted number is a number still": ("'10'", 10),
    "a number quoted twice is text": ("\"'10'\"", "10"),
    "a word": ("trainer", "trainer"),
    "Python's truth": ("True", True),
    "YAML's truth is text": ("true", "true"),
    "Python's nothing": ("None", None),
    "a list": ("\"['a', 1]\"", ["a", 1]),
    "a tuple is a list": ('"(1, 2)"', [1, 2]),
    "a mapping": ("\"{'a': {'b': 1}}\"", {"a": {"b": 1}}),
    "a complex number is text": ("1j", "1j"),
    "a number too long to be shown is text": (f"0x{'f' * 4000}", f"0x{'f' * 4000}"),
    "a list with such a number is text": (f"[0x{'f' * 4000}]", f"[0x{'f' * 4000}]"),
    "an ellipsis is text": ('"..."', "..."),
    "bytes are text": ("\"b'x'\"", "x"),
    "bytes that are not UTF-8 are text": ("\"b'\\xff'\"", "\udcff"),
    "a blank in quotes": ('"two words"', "two words"),
    "an escaped blank": ("two\\ words", "two words"),
    "an equals sign": ("-J=gate", "-J=gate"),
    "nothing": ("", ""),
    "a template": ('"{{ other }}"', "{{ other }}"),
    "a comment behind it": ("x # text", "x"),
    "a number sign inside": ('"a#b"', "a#b"),
    "what only looks like Python": ("\"['a'\"", "['a'"),
}


@pytest.mark.parametrize(("text", "value"), VALUES.values(), ids=VALUES)
def test_a_value_on_a_host_line_is_parsed(text: str, value: Any) -> None:
    assert plain(good(f"node1 v={text}\n").variables("node1")) == {"v": value}


SECTION_VALUES: Mapping[str, tuple[str, Any]] = {
    "a number": ("8080", 8080),
    "a quoted number is text": ("'10'", "10"),
    "quotes inside stay": ('say "it"', 'say "it"'),
    "blanks need no quotes": ("two words", "two words"),
    "a list": ("['a', 1]", ["a", 1]),
    "a number sign belongs to text": ("a # b", "a # b"),
    "a comment behind Python's": ("1 # one", 1),
    "an equals sign": ("a=b", "a=b"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "value"), SECTION_VALUES.values(), ids=SECTION_VALUES)
def test_a_value_in_a_vars_section_is_parsed(text: str, value: Any) -> None:
    assert plain(good(f"node1\n[all:vars]\nv = {text}\n").variables("node1")) == {"v": value}


def test_ranges_ports_and_sections_are_read() -> None:
    inventory = good(
        "alone\n"
        "[worker]   # behind a head\n"
        "node[1:3].example.com:2200 ansible_user=trainer\n"
        "\tnode9\tx=1  # with tabs\n"
        "[cluster:children]\nworker # named behind its hosts\nps # named before it comes\n"
        "[ps:vars]\na=1\n"
        "[ps]\nps[a:b]\n"
        "[worker:vars]\nb=2\n[worker:vars]\nb=3\n"
    )
    assert inventory.members("worker") == (*(f"node{n}.example.com" for n in (1, 2, 3)), "node9")
    assert inventory.members("cluster") == (*inventory.members("worker"), "psa", "psb")
    assert inventory.groups["ungrouped"].hosts == ("alone",)
    assert plain(inventory.variables("node2.example.com")) == {"ansible_port": 2200, "ansible_user": "trainer", "b": 3}
    assert plain(inventory.variables("psa")) == {"a": 1}
    before = good("[x:vars]\na=1\n[x]\n[1:2]-n b=2\n[3:4]n\n")
    assert before.members("x") == ("1-n", "2-n", "3n", "4n"), "no section, though it begins like one"
    assert plain(before.variables("1-n")) == {"a": 1, "b": 2}


def test_every_value_has_its_position() -> None:
    inventory = good("[worker]\n  node1 a=1  b='x y'\n[worker:vars]\n c  =  5\n")
    values = inventory.variables("node1").entries
    places = {name: value.at for name, value in values.items()}
    assert places == {"a": Position("i.ini", 2, 11), "b": Position("i.ini", 2, 16), "c": Position("i.ini", 4, 8)}
    assert inventory.variables("node1").key_at("b") == Position("i.ini", 2, 14)
    assert inventory.hosts["node1"].at == Position("i.ini", 2, 3)
    assert inventory.groups["worker"].at == Position("i.ini", 1, 2)
    assert inventory.groups["worker"].vars.at == Position("i.ini", 4, 1)


A_USER = "give the user as `ansible_user`, and the address as `ansible_host`"
LIKE_YAML = "looks like YAML; call a YAML inventory .yml, or remove it"
NO_VARIABLE = (
    "is not a variable of a host; for example `node1 ansible_host=10.0.0.1`; write each host on a line of its own"
)
NO_HEAD = "is not a section header; for example `[worker]`, `[worker:vars]` or `[worker:children]`, without blanks"
BAD: Mapping[str, tuple[str, list[str]]] = {
    "two hosts on a line": ("node1 node2", [f":1:7: error: `node2` {NO_VARIABLE}"]),
    "a blank around the sign": (
        "node1 a = 1",
        [f":1:{column}: error: `{word}` {NO_VARIABLE}" for column, word in ((7, "a"), (9, "="), (11, "1"))],
    ),
    "no name before the sign": ("node1 =1", [f":1:7: error: `=1` {NO_VARIABLE}"]),
    "twice on a line": ("node1 a=1 a=2", [":1:11: error: `a` is set twice on this line; keep one of them"]),
    "twice in a section": (
        "[all:vars]\na=1\n a=2",
        [":3:2: error: `a` is set twice (first on line 2); keep one of them"],
    ),
    "an open quote": ("node1 a='x", [":1:1: error: `node1 a='x`: no closing quotation; close the quote"]),
    "a backslash at the end": (
        "node1 a=x\\",
        [":1:1: error: `node1 a=x\\`: no escaped character; remove the backslash at its end"],
    ),
    "a blank in a head": ("[the worker]\nx y", [f":1:1: error: `[the worker]` {NO_HEAD}"]),
    "a head of an unknown kind": (
        "[worker:hosts]\n[worker:var]\nx=1",
        [":2:9: error: a section of the kind `var`; write `:vars`, `:children`, or nothing for hosts"],
    ),
    "a head that is not closed": (
        "[worker\nnode1",
        [f":1:1: error: `[worker` {NO_HEAD}"],
    ),
    "no sign in variables": ("[all:vars]\na", [":2:1: error: `a` is not a variable; for example `ansible_user=trainer`"]),
    "no name in variables": (
        "[all:vars]\n = 1",
        [":2:2: error: `= 1` is not a variable; for example `ansible_user=trainer`"],
    ),
    "variables before their section": (
        "[worker]\nansible_user=x",
        [
            ":2:1: error: `ansible_user=x` where a host should be; put variables under `[worker:vars]`, or behind a host"
        ],
    ),
    "an undeclared group with variables": (
        "[worker:vars]\na=1",
        [":1:2: error: variables for the group `worker`, which nothing declares; add `[worker]`, or correct the name"],
    ),
    "undeclared children": (
        "[all:children]\nps\n worker # c",
        [
            ":2:1: error: `all` has the child `ps`, which nothing declares; add `[ps]`, or correct the name",
            ":3:2: error: `all` has the child `worker`, which nothing declares; add `[worker]`, or correct the name",
        ],
    ),
    "two children on a line": (
        "[all:children]\nps worker",
        [":2:1: error: `ps worker` is not the name of a group; write one group per line"],
    ),
    "all below another": (
        "[worker:children]\nall",
        [":2:1: error: group `all` cannot be a child of another; remove it"],
    ),
    "a loop": (
        "[a:children]\nb\n[b:children]\na",
        [":4:1: error: group `a` is a child of `b` and also its parent; remove one of the two"],
    ),
    "YAML": (
        "---\nall:\n  hosts:",
        [f":{place}: error: `{word}` {LIKE_YAML}" for place, word in (("1:1", "---"), ("2:1", "all:"), ("3:3", "hosts:"))],
    ),
    "a range that counts backwards": (
        "node[5:1]",
        [":1:1: error: `[5:1]` counts backwards and stands for no host; for example `node[1:3]`"],
    ),
    "a host that is none": (
        "me@node1 a=1",
        [f":1:1: error: host name `me@node1` is not valid; {A_USER}"],
    ),
    "a priority that is none": (
        "[a]\n[a:vars]\nansible_group_priority=high",
        [":3:24: error: `ansible_group_priority` must be a whole number; for example `ansible_group_priority: 10`"],
    ),
    "what Python cannot hold": (
        'node1 a="{[]: 1}"',
        [":1:9: error: `{[]: 1}` cannot be read as a Python literal; quote it twice: \"'…'\""],
    ),
    "a password in two words": (
        "node1 ansible_password=open sesame\nnode2 ansible_ssh_pass='open sesame",
        [
            f":1:29: error: `…` {NO_VARIABLE}",
            ":2:1: error: `node2 ansible_ssh_pass…`: no closing quotation; close the quote",
        ],
    ),
    "a word before a password": ("node1 oops ansible_password=x", [f":1:7: error: `oops` {NO_VARIABLE}"]),
    "a password that is no Python": (
        "node1 ansible_password='{[]: 1}'",
        [":1:24: error: `…` cannot be read as a Python literal; quote it twice: \"'…'\""],
    ),
    "a password in a section": (
        "[all:vars]\nansible_password: open sesame",
        [":2:1: error: `ansible_password…` is not a variable; for example `ansible_user=trainer`"],
    ),
    "every line is checked": (
        "a b\n[x y]\nc d\n[ok]\ne f",
        [f":1:3: error: `b` {NO_VARIABLE}", f":2:1: error: `[x y]` {NO_HEAD}", f":5:3: error: `f` {NO_VARIABLE}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), BAD.values(), ids=BAD)
def test_a_problem_has_the_position_of_its_cause(text: str, lines: list[str]) -> None:
    assert read(text)[1] == [f"i.ini{line}" for line in lines]


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "i.ini"
    path.write_bytes(b"[worker]\nnode1 a=gr\xfc\xdfe\n")
    with pytest.raises(InvalidInput, match=r"i\.ini:2:11: error: not UTF-8 text; write it as UTF-8"):
        load_inventory(path)
