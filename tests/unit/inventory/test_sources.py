"""Where an inventory may be: files of every kind, directories of them, lists of hosts; and what is none of these."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_output import write_files
from tfprov.errors import InvalidInput
from tfprov.inventory.detect import Kind, kind_of
from tfprov.inventory.sources import MAX_FILES
from tfprov.model.inventory import Inventory
from tfprov.model.node import plain
from tfprov.settings.load import load_inventory

YAML = "worker: {hosts: {node1: {a: 1}}}\n"
INI = "[worker]\nnode2 a=2\n"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(*sources: str) -> Inventory:
    return load_inventory(sources)


def told(*sources: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read(*sources)
    return str(raised.value).splitlines()


# What kind of file it is

KINDS = {
    "yaml by its name": ("i.yml", "worker:\n", Kind.YAML),
    "yaml by its other name": ("i.yaml", "worker:\n", Kind.YAML),
    "json": ("i.json", '{"worker": {}}', Kind.YAML),
    "yaml without a name for it": ("hosts", "# c\n\nworker:\n  hosts: {a: }\n", Kind.YAML),
    "yaml that begins with its mark": ("hosts", "---\nworker: {}\n", Kind.YAML),
    "json without a name for it": ("hosts", '{"worker": {}}', Kind.YAML),
    "a playbook": ("hosts", "- hosts: all\n", Kind.YAML),
    "ini without a name for it": ("hosts", "; c\n[worker]\na\n", Kind.INI),
    "ini in a file called yaml": ("i.yml", "[worker]\nnode1\n", Kind.INI),
    "hosts alone": ("hosts", "node1\nnode2 a=1\n", Kind.INI),
    "a host with a port": ("hosts", "node1:22\n", Kind.INI),
    "ini": ("i.ini", "[worker]\n", Kind.INI),
    "a dot in the name": ("hosts.prod", "[worker]\n", Kind.INI),
    "toml": ("i.toml", "[worker.hosts]\n", Kind.TOML),
    "comments alone": ("i.ini", "# c\n; d\n", Kind.NOTHING),
    "a mark alone": ("i.yml", "---\n# c\n", Kind.NOTHING),
    "a script that may not run": ("i.sh", "#!/bin/sh\necho\n", Kind.INI),
    "an encrypted file": ("i.yml", "$ANSIBLE_VAULT;1.1;AES256\n30\n", Kind.YAML),
}


@pytest.mark.parametrize(("name", "text", "kind"), KINDS.values(), ids=KINDS)
def test_a_file_is_known_by_its_name_and_its_first_line(name: str, text: str, kind: Kind) -> None:
    Path(name).write_text(text)
    assert kind_of(name, text.encode()) is kind


def test_an_executable_is_a_script_only_when_it_can_be_run() -> None:
    for name, text, kind in (("a.yml", "#!/bin/sh\n", Kind.SCRIPT), ("b.yml", YAML, Kind.YAML)):
        Path(name).write_text(text)
        Path(name).chmod(0o755)
        assert kind_of(name, text.encode()) is kind


# Several


def test_what_a_later_source_says_wins() -> None:
    write_files(
        {"one.yml": YAML + "other: {hosts: {x: }}\n", "two.ini": "[worker]\nnode1 a=two b=3\n[worker:vars]\nc=4\n"}
    )
    inventory = read("one.yml", "two.ini", "node1,node9:2200")
    assert plain(inventory.variables("node1")) == {"a": "two", "b": 3, "c": 4}
    assert plain(inventory.variables("node9")) == {"ansible_port": 2200}
    assert inventory.groups["ungrouped"].hosts == ("node9",)
    assert [at.at.file for at in inventory.hosts.values()] == ["one.yml", "one.yml", "-i"]


def test_a_port_counts_where_the_host_is_named_first() -> None:
    write_files({"i.yml": "worker: {hosts: {'node1:22': {}, 'node[2:3]:23': {ansible_port: 24}, 'node1:25': {}}}\n"})
    inventory = read("i.yml")
    ports = {name: plain(inventory.variables(name)) for name in inventory.hosts}
    assert ports == {f"node{n}": {"ansible_port": port} for n, port in ((1, 22), (2, 24), (3, 24))}


@pytest.mark.parametrize("name", ["[fd00::1]:2200", "fd00::1"])
def test_a_host_may_be_called_by_an_ipv6_address(name: str) -> None:
    write_files({"i.yml": f"worker: {{hosts: {{'{name}': }}}}\n"})
    assert list(read("i.yml").hosts) == ["fd00::1"]


def test_a_directory_is_read_in_the_order_of_names_with_what_lies_below() -> None:
    write_files(
        {
            "inv/20.yml": YAML.replace("a: 1", "a: 20"),
            "inv/10.yml": YAML.replace("a: 1", "a: 10, b: 10"),
            "inv/sub/05": INI,
            "inv/empty.yml": "# nothing yet\n",
            "inv/group_vars/worker.yml": "c: 3\n",
            "inv/host_vars/node1": "d: 4\n",
        }
    )
    for ignored in (".hidden.yml", "x.cfg", "x.bak", "x.md", "x.txt", "x.retry", "x.orig", "x.yml~", "x.swp", "x.pyc"):
        Path("inv", ignored).write_text("no: [inventory")
    inventory = read("inv")
    assert plain(inventory.variables("node1")) == {"a": 20, "b": 10, "c": 3, "d": 4}
    assert plain(inventory.variables("node2")) == {"a": 2, "c": 3}
    assert inventory.hosts["node1"].at.file == "inv/10.yml"


def test_a_source_may_have_a_comma_and_a_variable_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    write_files({"a,b.yml": YAML, "home/i.yml": YAML.replace("node1", "node3")})
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    monkeypatch.setenv("WHERE", "home")
    assert list(read("a,b.yml").hosts) == ["node1"]
    assert list(read("~/i.yml").hosts) == ["node3"]
    assert list(read("$WHERE/i.yml").hosts) == ["node3"]


def test_a_source_can_be_a_pipe() -> None:
    inlet, outlet = os.pipe()
    os.write(outlet, YAML.encode())
    os.close(outlet)
    try:
        assert list(read(f"/dev/fd/{inlet}").hosts) == ["node1"]
    finally:
        os.close(inlet)


def test_json_has_its_own_numbers_and_escapes() -> None:
    write_files({"i.json": '\ufeff{"worker": {"hosts": {"h": {"n": 1e3, "t": "1e3", "s": "\\ud83d\\ude00\\/"}}}}'})
    assert plain(read("i.json").variables("h")) == {"n": 1000.0, "t": "1e3", "s": "\U0001f600/"}


# What is none

BAD: Mapping[str, tuple[Mapping[str, str], list[str], list[str]]] = {
    "nothing there": ({}, ["no.yml"], ["no.yml: error: no such file; check the path given with -i"]),
    "an empty directory": (
        {"inv/.gitkeep": "", "inv/group_vars/all.yml": "a: 1\n"},
        ["inv"],
        ["inv: error: a directory without an inventory in it; put one there, or give a file; `tfprov init` writes one"],
    ),
    "a list of nothing": ({}, [" , "], ["-i: error: ` , ` names no host; for example `-i host1,host2`"]),
    "a range in a list": (
        {},
        ["node[1:3],"],
        ["-i: error: a range in a list of hosts: `node[1:3]`; write it into a file"],
    ),
    "a wrong name in a list": (
        {},
        ["a,me@b"],
        [
            (
                "-i: error: host name `me@b` is not valid; "
                "give the user as `ansible_user`, and the address as `ansible_host`"
            )
        ],
    ),
    "every source is told": (
        {"a.yml": "x: [", "b.ini": "[worker:x]\n", "c.toml": "[a]\n"},
        ["a.yml", "b.ini", "c.toml", "d.yml"],
        [
            "a.yml:1:5: error: the file ends within brackets; close them",
            "b.ini:1:9: error: a section of the kind `x`; write `:vars`, `:children`, or nothing for hosts",
            (
                "c.toml: error: a TOML inventory, which tfprov does not read; "
                "convert it with `ansible-inventory -i FILE --list --yaml`"
            ),
            "d.yml: error: no such file; check the path given with -i",
        ],
    ),
    "YAML that is called something else": (
        {"i.inv": "worker:\n  hosts:\n"},
        ["i.inv"],
        ["i.inv:1:1: error: YAML in a file that is not called so, which Ansible reads as INI; call it .yml"],
    ),
    "a script that may not be executed": (
        {"i.py": "#!/usr/bin/env python3\nprint()\n"},
        ["i.py"],
        ["i.py: error: a script that may not be executed; allow it with `chmod +x i.py`"],
    ),
    "settings of a plugin": (
        {"i.yml": "plugin: aws_ec2\nregions: [eu]\n"},
        ["i.yml"],
        [
            (
                "i.yml:1:9: error: settings of the inventory plugin `aws_ec2`, which tfprov does not run; "
                "give what `ansible-inventory -i FILE --list --yaml` prints, or a script that asks Ansible"
            )
        ],
    ),
    "the output of a script": (
        {"i.json": '{"_meta": {"hostvars": {}}, "worker": {"hosts": ["a"]}}'},
        ["i.json"],
        [
            (
                "i.json:1:2: error: `_meta` is for what an inventory script prints, not for a file; "
                "make a script of it that prints this, or write it as `ansible-inventory -i SCRIPT --list --yaml` does"
            )
        ],
    ),
    "a loop over two sources": (
        {"a.yml": "a: {children: {b: }}\n", "b.ini": "[b:children]\na\n"},
        ["a.yml", "b.ini"],
        ["b.ini:2:1: error: group `a` is a child of `b` and also its parent; remove one of the two"],
    ),
    "an empty file": ({"hosts": "\n"}, ["hosts"], ["hosts: error: empty; start from `tfprov init`"]),
}


@pytest.mark.parametrize(("files", "sources", "lines"), BAD.values(), ids=BAD)
def test_what_is_no_inventory_is_told(files: Mapping[str, str], sources: list[str], lines: list[str]) -> None:
    write_files(files)
    assert told(*sources) == lines


def test_a_directory_that_leads_back_into_itself() -> None:
    write_files({"inv/i.yml": YAML})
    Path("inv/more").symlink_to("..")
    found = told("inv")
    assert found == ["inv/more/inv: error: a directory inside itself; remove the link that leads back"]


def test_a_directory_that_was_not_meant() -> None:
    Path("inv").mkdir()
    for number in range(MAX_FILES + 5):
        Path("inv", f"{number}.yml").write_text("# nothing\n")
    assert told("inv")[0] == "inv: error: more than 1,000 files; give a directory that holds inventories only"
    assert len(told("inv")) == 1


def test_a_null_byte_in_a_source() -> None:
    assert len(told("a\0b.yml")) == 1


@pytest.mark.parametrize(
    ("error", "reason"), [(PermissionError(13, "Permission denied"), "permission denied"), (OSError("Gone"), "gone")]
)
def test_a_directory_that_cannot_be_read_is_told(
    error: OSError, reason: str, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there / "inv").mkdir()

    def refuses(path: object) -> list[bytes]:
        raise error

    monkeypatch.setattr(os, "listdir", refuses)
    with pytest.raises(InvalidInput) as raised:
        read("inv")
    assert [str(one) for one in raised.value.problems] == [f"inv: error: {reason}; give a readable directory"]
