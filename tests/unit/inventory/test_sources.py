"""The sources of an inventory: files of all formats, directories and host lists; and their errors."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_output import write_files
from tests.support.inventories import inventory
from tfprov.errors import InvalidInput, Problem
from tfprov.inventory.detect import SourceKind, detect_kind, is_unlikely_inventory
from tfprov.inventory.sources import MAX_FILES
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain
from tfprov.settings.load import load_inventory

YAML = "worker: {hosts: {node1: {a: 1}}}\n"
INI = "[worker]\nnode2 a=2\n"


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(*sources: str) -> Inventory:
    return load_inventory(sources)


def problems(*sources: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read(*sources)
    return str(raised.value).splitlines()


# What kind of file it is

KINDS = {
    "yaml by its name": ("i.yml", "worker:\n", SourceKind.YAML),
    "yaml by its other name": ("i.yaml", "worker:\n", SourceKind.YAML),
    "json": ("i.json", '{"worker": {}}', SourceKind.YAML),
    "yaml without a name for it": ("hosts", "# c\n\nworker:\n  hosts: {a: }\n", SourceKind.YAML),
    "yaml that begins with its mark": ("hosts", "---\nworker: {}\n", SourceKind.YAML),
    "json without a name for it": ("hosts", '{"worker": {}}', SourceKind.YAML),
    "a playbook": ("hosts", "- hosts: all\n", SourceKind.YAML),
    "ini without a name for it": ("hosts", "; c\n[worker]\na\n", SourceKind.INI),
    "ini in a file called yaml": ("i.yml", "[worker]\nnode1\n", SourceKind.INI),
    "hosts alone": ("hosts", "node1\nnode2 a=1\n", SourceKind.INI),
    "a host with a port": ("hosts", "node1:22\n", SourceKind.INI),
    "ini": ("i.ini", "[worker]\n", SourceKind.INI),
    "a dot in the name": ("hosts.prod", "[worker]\n", SourceKind.INI),
    "toml": ("i.toml", "[worker.hosts]\n", SourceKind.TOML),
    "comments alone": ("i.ini", "# c\n; d\n", SourceKind.NOTHING),
    "a mark alone": ("i.yml", "---\n# c\n", SourceKind.NOTHING),
    "a script that may not run": ("i.sh", "#!/bin/sh\necho\n", SourceKind.INI),
    "an encrypted file": ("i.yml", "$ANSIBLE_VAULT;1.1;AES256\n30\n", SourceKind.YAML),
}


@pytest.mark.parametrize(("name", "text", "kind"), KINDS.values(), ids=KINDS)
def test_the_format_of_a_file_is_detected_by_name_and_first_line(name: str, text: str, kind: SourceKind) -> None:
    Path(name).write_text(text)
    assert detect_kind(name, text.encode()) is kind


def test_the_format_of_a_file_in_another_encoding_is_detected() -> None:
    for data, kind in ((b"[gr\xfc\xdfe]\nnode1\n", SourceKind.INI), (b"gr\xfc\xdfe: {}\n", SourceKind.YAML)):
        assert detect_kind("inventory", data) is kind


def test_a_file_with_a_line_of_an_inventory_is_one_by_most_names() -> None:
    names = ("hosts", "a.ini", "a.inv", "a.inventory", "a.hosts", "a.host", "a.list", "a.lst")
    for name in names:
        for data in (
            b"[gpu]",
            b"gr\xfc\xdfe\n [gpu:vars] ; x\n",
            b"all:\n",
            b"x:\n hosts :",
            b"children: {}",
            b"vars:",
        ):
            assert not is_unlikely_inventory(name, data), (name, data)
        for data in (b"All hosts of ours.", b"\xff", b"see [gpu]", b"[a]b", b"overall: x"):
            assert is_unlikely_inventory(name, data), (name, data)
    assert is_unlikely_inventory("a.conf", b"[gpu]")
    for name, data in (
        ("a.yml", b"x"),
        ("a.yaml", b"x"),
        ("a.json", b"x"),
        ("a.toml", b"x"),
        ("a", b"$ANSIBLE_VAULT;1"),
    ):
        assert not is_unlikely_inventory(name, data), name


def test_an_executable_file_is_a_script_only_with_a_shebang() -> None:
    for name, text, kind in (("a.yml", "#!/bin/sh\n", SourceKind.SCRIPT), ("b.yml", YAML, SourceKind.YAML)):
        Path(name).write_text(text)
        Path(name).chmod(0o755)
        assert detect_kind(name, text.encode()) is kind


# Several


def test_a_later_source_wins() -> None:
    write_files(
        {"one.yml": YAML + "other: {hosts: {x: }}\n", "two.ini": "[worker]\nnode1 a=two b=3\n[worker:vars]\nc=4\n"}
    )
    inventory = read("one.yml", "two.ini", "node1,node9:2200")
    assert plain(inventory.variables("node1")) == {"a": "two", "b": 3, "c": 4}
    assert plain(inventory.variables("node9")) == {"ansible_port": 2200}
    assert inventory.groups["ungrouped"].hosts == ("node9",)
    assert [at.at.file for at in inventory.hosts.values()] == ["one.yml", "one.yml", "-i"]


def test_the_port_of_the_first_mention_of_a_host_counts() -> None:
    write_files({"i.yml": "worker: {hosts: {'node1:22': {}, 'node[2:3]:23': {ansible_port: 24}, 'node1:25': {}}}\n"})
    inventory = read("i.yml")
    ports = {name: plain(inventory.variables(name)) for name in inventory.hosts}
    assert ports == {f"node{n}": {"ansible_port": port} for n, port in ((1, 22), (2, 24), (3, 24))}


@pytest.mark.parametrize("name", ["[fd00::1]:2200", "fd00::1"])
def test_a_host_name_may_be_an_ipv6_address(name: str) -> None:
    write_files({"i.yml": f"worker: {{hosts: {{'{name}': }}}}\n"})
    assert list(read("i.yml").hosts) == ["fd00::1"]


def test_a_directory_is_read_recursively_in_the_order_of_names() -> None:
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
    ignored_names = (
        *(".hidden.yml", "x.cfg", "x.bak", "x.md", "x.txt", "x.retry", "x.orig", "x.yml~", "x.swp", "x.pyc", "x.pyo"),
        *("x.rpm", "x.rst", "vars_plugins"),
    )
    for ignored in ignored_names:
        Path("inv", ignored).write_text("no: [inventory")
    inventory = read("inv")
    assert plain(inventory.variables("node1")) == {"a": 20, "b": 10, "c": 3, "d": 4}
    assert plain(inventory.variables("node2")) == {"a": 2, "c": 3}
    assert inventory.hosts["node1"].at.file == "inv/10.yml"


def test_a_host_name_may_have_253_bytes_as_it_names_a_directory() -> None:
    for size in (253, 254):
        write_files({f"{size}.yml": f"all: {{hosts: {{{'n' * size}: }}}}\n"})
    assert list(read("253.yml").hosts) == ["n" * 253]
    assert len(problems("254.yml")) == 1


def test_a_directory_may_hold_files_that_are_ignored_by_their_names() -> None:
    endings = ("~", ".pyc", ".pyo", ".swp", ".bak", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry")
    names = (*(f"a{ending}" for ending in endings), ".hidden", "vars_plugins/x", "host_vars/x", "group_vars/x")
    write_files({"inv/lab.yml": "all: {hosts: {h1: }}", **{f"inv/{name}": "all: {hosts: {no: }}" for name in names}})
    assert list(read("inv").hosts) == ["h1"]
    write_files({f"inv/b{ending}.yml": f"all: {{hosts: {{h{n}: }}}}" for n, ending in enumerate(endings, 2)})
    assert len(read("inv").hosts) == 13, "an ending counts at the end only"


def test_what_a_gather_has_written_into_a_directory_is_ignored() -> None:
    keys = ("cluster", "run", "checkpoints", "files")
    manifest = ", ".join(f'"{key}": {{}}' for key in keys)
    write_files({"inv/lab.yml": "all: {hosts: {h1: }}", "inv/out/x.yml": "all: {hosts: {h2: }}"})
    for text, hosts in (
        (f"{{{manifest}}}", ["h1"]),
        *((f"{{{manifest}}}".replace(key, "x"), ["h1", "h2"]) for key in keys),
    ):
        write_files({"inv/out/manifest.json": text})
        assert list(read("inv").hosts) == hosts, text
    write_files({"inv/out/manifest.json": "{all: {}}", "inv/out/logs/20260102T030405Z-abcdef/settings.json": "{}"})
    assert list(read("inv").hosts) == ["h1"]


def test_the_path_of_a_source_may_have_commas_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    write_files({"a,b.yml": YAML, "home/i.yml": YAML.replace("node1", "node3")})
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    monkeypatch.setenv("WHERE", "home")
    assert list(read("a,b.yml").hosts) == ["node1"]
    assert list(read("~/i.yml").hosts) == ["node3"]
    assert list(read("$WHERE/i.yml").hosts) == ["node3"]


def test_a_source_may_be_a_pipe() -> None:
    inlet, outlet = os.pipe()
    os.write(outlet, YAML.encode())
    os.close(outlet)
    try:
        assert list(read(f"/dev/fd/{inlet}").hosts) == ["node1"]
    finally:
        os.close(inlet)


def test_a_pipe_and_a_socket_in_a_directory_are_skipped() -> None:
    write_files({"inventories/lab.yml": "all: {hosts: {h1: }}"})
    os.mkfifo("inventories/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("inventories/control.sock")
        warnings: list[Problem] = []
        assert list(load_inventory(["inventories"], warn=warnings.append).hosts) == ["h1"]
    assert [(warning.at.file, warning.what) for warning in warnings] == [
        (f"inventories/{name}", "skipped, because it is not an inventory (a pipe, a socket or a device)")
        for name in ("control.sock", "pipe")
    ]


def test_numbers_and_escapes_of_json_are_parsed() -> None:
    write_files({"i.json": '\ufeff{"worker": {"hosts": {"h": {"n": 1e3, "t": "1e3", "s": "\\ud83d\\ude00\\/"}}}}'})
    assert plain(read("i.json").variables("h")) == {"n": 1000.0, "t": "1e3", "s": "\U0001f600/"}


# What is none

BAD: Mapping[str, tuple[Mapping[str, str], list[str], list[str]]] = {
    "a missing file": ({}, ["no.yml"], ["no.yml: error: no such file; check the path after -i"]),
    "an empty directory": (
        {"inv/.gitkeep": "", "inv/group_vars/all.yml": "a: 1\n"},
        ["inv"],
        ["inv: error: a directory without an inventory in it; put one there, or give a file; `tfprov init` writes one"],
    ),
    "a list of nothing": ({}, [" , "], ["-i: error: ` , ` names no host; for example `-i host1,host2`"]),
    "a range in a list": (
        {},
        ["node[1:3],"],
        ["-i: error: a range in a host list: `node[1:3]`; write it into a file"],
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
    "every source is reported": (
        {"a.yml": "x: [", "b.ini": "[worker:x]\n", "c.toml": "[a]\n"},
        ["a.yml", "b.ini", "c.toml", "d.yml"],
        [
            "a.yml:1:5: error: the file ends within brackets; close them",
            "b.ini:1:9: error: a section of the kind `x`; write `:vars`, `:children`, or nothing for hosts",
            (
                "c.toml: error: a TOML inventory, which tfprov does not read; "
                "convert it with `ansible-inventory -i FILE --list --yaml`"
            ),
            "d.yml: error: no such file; check the path after -i",
        ],
    ),
    "YAML that is called something else": (
        {"i.inv": "worker:\n  hosts:\n"},
        ["i.inv"],
        ["i.inv:1:1: error: YAML in a file whose name ends otherwise, which Ansible reads as INI; call it .yml"],
    ),
    "a script that is not executable": (
        {"i.py": "#!/usr/bin/env python3\nprint()\n"},
        ["i.py"],
        ["i.py: error: a script that is not executable; make it executable with `chmod +x i.py`"],
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
                "i.json:1:2: error: `_meta` belongs to the output of an inventory script, not to a file; "
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
def test_a_file_that_is_no_inventory_is_refused(files: Mapping[str, str], sources: list[str], lines: list[str]) -> None:
    write_files(files)
    assert problems(*sources) == lines


def test_a_directory_inside_itself_is_refused() -> None:
    write_files({"inv/i.yml": YAML})
    Path("inv/more").symlink_to("..")
    lines = problems("inv")
    assert lines == ["inv/more/inv: error: a directory inside itself; remove the link that leads back"]


def test_a_directory_with_too_many_files_is_refused() -> None:
    Path("inv").mkdir()
    for number in range(MAX_FILES + 5):
        Path("inv", f"{number}.yml").write_text("# nothing\n")
    assert problems("inv")[0] == "inv: error: more than 1,000 files; give a directory that holds inventories only"
    assert len(problems("inv")) == 1


def test_a_null_byte_in_a_source_is_refused() -> None:
    assert len(problems("a\0b.yml")) == 1


@pytest.mark.parametrize(
    ("error", "reason"), [(PermissionError(13, "Permission denied"), "permission denied"), (OSError("Gone"), "gone")]
)
def test_an_unreadable_directory_is_refused(
    error: OSError, reason: str, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "inv").mkdir()

    def refuses(path: object) -> list[bytes]:
        raise error

    monkeypatch.setattr(os, "listdir", refuses)
    with pytest.raises(InvalidInput) as raised:
        read("inv")
    assert [str(problem) for problem in raised.value.problems] == [f"inv: error: {reason}; give a readable directory"]


@pytest.mark.parametrize(
    ("value", "priority"),
    [
        ("10", 10),
        ("'10'", 10),
        ("-1", -1),
        ("1000000000", 10**9),
        ("-1000000000", -(10**9)),
        ("'999999999'", 999_999_999),
    ],
)
def test_a_group_priority_is_a_whole_number(value: str, priority: int) -> None:
    assert inventory(f"a: {{vars: {{ansible_group_priority: {value}}}}}").groups["a"].priority == priority


@pytest.mark.parametrize("value", ["1000000001", "-1000000001", "'1000000000'", "'-1'", "1.0", "true", "[1]", ""])
def test_any_other_group_priority_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        inventory(f"a: {{vars: {{ansible_group_priority: {value}}}}}")
    assert [problem.what for problem in caught.value.problems] == ["`ansible_group_priority` must be a whole number"]
