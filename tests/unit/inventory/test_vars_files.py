"""`group_vars/` and `host_vars/`: which files are read, and their precedence."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_output import write_files
from tests.support.vaults import encrypt, value
from tfprov.errors import InvalidInput
from tfprov.inventory.vars_files import base_directory
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain, plain_masked
from tfprov.settings.load import load, load_inventory
from tfprov.settings.role_settings import resolve_path
from tfprov.vault.decrypt import Vault
from tfprov.vault.passwords import Passwords

INVENTORY = """\
all:
  vars: {v: all, w: all, x: all}
  children:
    top:
      vars: {v: top, w: top}
      children: {worker: {hosts: {node1: {v: host, w: host}, node2: }, vars: {v: worker}}}
"""


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(files: Mapping[str, str], *sources: str, extra: tuple[str, ...] = ()) -> Inventory:
    write_files({"i.yml": INVENTORY} | dict(files))
    return load_inventory(sources or ("i.yml",), extra)


def problems(files: Mapping[str, str], *sources: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read(files, *sources)
    return str(raised.value).splitlines()


ALL_LAYERS = {
    "group_vars/all.yml": "l: all file\n",
    "group_vars/top.yml": "l: top file\n",
    "group_vars/worker/a.yml": "l: worker file a\n",
    "group_vars/worker/b.yml": "l: worker file b\n",
    "host_vars/node1.yml": "l: host file\n",
    "second/i.ini": "[other]\n",
    "second/group_vars/all.yml": "l: second all file\n",
    "second/host_vars/node1.yml": "l: second host file\n",
}


def test_variables_are_merged_from_the_lowest_precedence_to_the_highest() -> None:
    inventory = read(ALL_LAYERS, "i.yml", "second/i.ini", extra=("l=last",))
    layers = [
        (layer.origin, next(iter(layer.vars.entries.values())).at.file, plain(layer.vars).get("l"))
        for layer in inventory.layers("node1")
    ]
    assert layers == [
        ("group `all`", "i.yml", None),
        ("group `top`", "i.yml", None),
        ("group `worker`", "i.yml", None),
        ("group_vars of `all`", "group_vars/all.yml", "all file"),
        ("group_vars of `all`", "second/group_vars/all.yml", "second all file"),
        ("group_vars of `top`", "group_vars/top.yml", "top file"),
        ("group_vars of `worker`", "group_vars/worker/a.yml", "worker file a"),
        ("group_vars of `worker`", "group_vars/worker/b.yml", "worker file b"),
        ("host", "i.yml", None),
        ("host_vars", "host_vars/node1.yml", "host file"),
        ("host_vars", "second/host_vars/node1.yml", "second host file"),
        ("-e", "-e l", "last"),
    ]


def test_group_vars_of_all_win_over_groups_of_the_inventory_and_not_over_hosts() -> None:
    inventory = read({"group_vars/all": "v: file\nw: file\n"})
    assert plain(inventory.variables("node1")) == {"v": "host", "w": "host", "x": "all"}
    assert plain(inventory.variables("node2")) == {"v": "file", "w": "file", "x": "all"}


def test_hosts_with_equal_variables_share_one_mapping() -> None:
    write_files({"i.yml": "worker: {hosts: {'node[1:100]': }, vars: {a: 1}}\n", "group_vars/worker": "b: 2\n"})
    inventory = load_inventory(["i.yml"], ["c=3"])
    assert len({id(inventory.variables(host)) for host in inventory.hosts}) == 1
    assert plain(inventory.variables("node7")) == {"a": 1, "b": 2, "c": "3"}


def test_a_group_priority_in_group_vars_has_no_effect() -> None:
    files = {"i.yml": "a: {hosts: {h: }, vars: {v: a}}\nb: {hosts: {h: }, vars: {v: b}}\n"}
    files["group_vars/a.yml"] = "ansible_group_priority: 10\n"
    assert plain(read(files).variables("h")) == {"v": "b", "ansible_group_priority": 10}


# Which files

FILES: Mapping[str, tuple[Mapping[str, str], object]] = {
    "without an extension": ({"worker": "n: 1"}, 1),
    ".yml": ({"worker.yml": "n: 1"}, 1),
    ".yaml": ({"worker.yaml": "n: 1"}, 1),
    ".json": ({"worker.json": '{"n": 1e3}'}, 1000.0),
    "the first of several": ({"worker.json": "n: json", "worker.yaml": "n: yaml", "worker.yml": "n: yml"}, "yml"),
    "no extension comes first": ({"worker": "n: 1", "worker.yml": "n: 2"}, 1),
    "a directory and no file": ({"worker/x": "n: 1", "worker.yml": "n: 2"}, 1),
    "the last in a directory": ({"worker/b.yml": "n: b", "worker/a.yml": "n: a", "worker/C": "n: c"}, "b"),
    "below a directory": ({"worker/more/deep/x.json": "n: 1"}, 1),
    "a directory with a dot": ({"worker/more.d/x.yml": "n: 1"}, None),
    "hidden": ({"worker/.x.yml": "n: 1", ".worker.yml": "n: 2"}, None),
    "what an editor left": ({"worker/x.yml~": "n: 1", "worker/x~": "n: 2", "worker/x.bak": "n: 3"}, None),
    "another extension": ({"worker.txt": "n: 1", "worker.yml.j2": "n: 2"}, None),
    "for nobody": ({"nobody.yml": "- no\nvariables"}, None),
    "empty": ({"worker.yml": ""}, None),
    "comments": ({"worker.yml": "# n: 1\n"}, None),
    "marks": ({"worker.yml": "---\n# n: 1\n...\n"}, None),
    "null": ({"worker.yml": "~"}, None),
    "an empty mapping": ({"worker.yml": "{}"}, None),
    "an empty directory": ({"worker/.gitkeep": ""}, None),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), FILES.values(), ids=FILES)
@pytest.mark.parametrize(("directory", "name"), [("group_vars", "worker"), ("host_vars", "node2")])
def test_only_the_vars_files_that_ansible_reads_are_read(
    directory: str, name: str, files: Mapping[str, str], expected: object
) -> None:
    named = {f"{directory}/{path.replace('worker', name)}": text for path, text in files.items()}
    assert plain(read(named).variables("node2")).get("n") == expected


def test_a_dangling_symlink_is_ignored() -> None:
    write_files({"group_vars/worker.yml": "n: 1\n"})
    Path("group_vars/worker").symlink_to("nowhere")
    assert plain(read({}).variables("node1"))["n"] == 1


@pytest.mark.parametrize("name", ["group_vars", "group_vars/worker.yml", "group_vars/worker/a.yml"])
def test_a_vars_file_that_cannot_be_looked_at_is_a_problem(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).symlink_to("x" * 300)  # for root, too, the system refuses to look
    assert problems({}) in (
        [f"{name}: error: file name too long; give a readable file"],
        [f"{name}: error: cannot be read: file name too long; give a readable directory"],
    )


def test_an_inventory_in_a_directory_that_cannot_be_looked_at_is_one_problem() -> None:
    path = f"{'x' * 300}/i.yml"
    assert problems({}, path) == [f"{path}: error: file name too long; give a readable file"]


def test_vars_files_of_all_and_ungrouped_are_read() -> None:
    files = {"i.yml": "all: {hosts: {lone: }}\n", "group_vars/ungrouped.yml": "u: 1\n", "group_vars/all.yml": "a: 1\n"}
    assert plain(read(files).variables("lone")) == {"u": 1, "a": 1}


def test_vars_files_of_a_directory_of_sources_are_in_that_directory() -> None:
    files = {
        "inv/sub/i.yml": "worker: {hosts: {h: }}\n",
        "inv/group_vars/worker.yml": "n: 1\n",
        "inv/sub/group_vars/worker.yml": "n: 2\n",
        "group_vars/worker.yml": "n: 3\n",
    }
    assert plain(read(files, "inv").variables("h")) == {"n": 1}


def test_a_host_list_has_no_vars_files() -> None:
    assert plain(read({"group_vars/all.yml": "n: 1\n"}, "a,b").variables("a")) == {}


# Settings in them

PROGRAM = {"i.yml": "worker: {hosts: {localhost: }}\n", "program/x.py": "", "group_vars/program/x.py": ""}


def test_relative_paths_in_vars_files_are_relative_to_the_inventory() -> None:
    settings = "tfprov: {cluster: c, command: [x], code: ./program, checkpoints: {to: ../saved}}\n"
    write_files({f"inv/{name}": text for name, text in (PROGRAM | {"group_vars/all/tf.yml": settings}).items()})
    (role,) = load(["inv/i.yml"])[1]
    assert resolve_path(role, "code") == Path("inv/program")
    assert resolve_path(role, "checkpoints", "to") == Path("saved")


@pytest.mark.parametrize(
    ("file", "base"),
    [
        ("i.yml", "."),
        ("a/i.yml", "a"),
        ("group_vars/all.yml", "."),
        ("a/host_vars/h/deep/x", "a"),
        ("/a/group_vars/w.yml", "/a"),
    ],
)
def test_the_base_directory_of_a_file(file: str, base: str) -> None:
    assert base_directory(file) == Path(base)


def test_group_vars_of_another_role_are_left_out() -> None:
    files = {
        "i.yml": "all: {vars: {tfprov: {cluster: c, command: [x]}}}\n"
        "ps: {hosts: {localhost: }}\nworker: {hosts: {localhost: }}\n",
        "group_vars/worker.yml": "tfprov: {tasks_per_host: 2}\nother: 1\n",
    }
    write_files(files)
    inventory, roles = load(["i.yml"])
    assert {role.role: role.values.tasks_per_host for role in roles} == {"ps": 1, "worker": 2}
    assert plain(inventory.variables("localhost", role="ps"))["other"] == 1
    assert [layer.origin for layer in inventory.layers("localhost", role="ps")] == [
        "group `all`",
        "group_vars of `worker`",
    ]


def test_encrypted_vars_files_and_values_are_decrypted() -> None:
    whole, single = encrypt("a: 1\nansible_password: sesame\n", "b-secret")
    write_files(
        {
            "i.yml": INVENTORY,
            "group_vars/all.yml": whole,
            "host_vars/node1.yml": f"b: {value(single, 2)}",
            "pw": "open sesame\n",
        }
    )
    vault = Vault(Passwords(files=["pw"]))
    inventory = load_inventory(["i.yml"], vault=vault)
    shown = plain_masked(inventory.variables("node1"))
    assert shown["ansible_password"] == "******"
    assert list(shown["b"]) == ["__ansible_vault"]
    assert "no password is available" in problems({})[0]


# What is wrong

BAD: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "a list": (
        {"group_vars/all.yml": "- a: 1\n"},
        ["group_vars/all.yml:1:1: error: variables must be a mapping; write `name: value` lines"],
    ),
    "text": (
        {"host_vars/node1": "\nnonsense\n"},
        ["host_vars/node1:2:1: error: variables must be a mapping; write `name: value` lines"],
    ),
    "encrypted text below a comment": (
        {"group_vars/all.yml": "# secret\n$ANSIBLE_VAULT;1.1;AES256\n3530\n"},
        [("group_vars/all.yml:2:1: error: `$ANSIBLE_VAULT;` begins an encrypted file, and this one begins with something "
          "else; remove what stands before it, also comments and empty lines")],
    ),
    "a key twice": (
        {"group_vars/all.yml": "a: 1\na: 2\n"},
        ["group_vars/all.yml:2:1: error: `a` is set twice (first on line 1); keep one of them"],
    ),
    "all files at once": (
        {"group_vars/all/1.yml": "a: [\n", "group_vars/all/2.yml": "- b\n", "host_vars/node2": "c: &c\n\td: 1\n"},
        [
            "group_vars/all/1.yml:1:5: error: the file ends within brackets; close them",
            "group_vars/all/2.yml:1:1: error: variables must be a mapping; write `name: value` lines",
            "host_vars/node2:2:1: error: a tab in the indentation; indent with spaces",
        ],
    ),
    "no directory": (
        {"group_vars": "a: 1\n"},
        ["group_vars: error: cannot be read: not a directory; give a readable directory"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "lines"), BAD.values(), ids=BAD)
def test_a_problem_in_a_vars_file_has_its_position(files: Mapping[str, str], lines: list[str]) -> None:
    assert problems(files) == lines


def test_an_invalid_setting_in_a_vars_file_has_its_position() -> None:
    write_files(PROGRAM | {"group_vars/all.yml": "tfprov:\n  cluster: c\n  command: [x]\n  prot: 1\n"})
    with pytest.raises(
        InvalidInput, match=r"^group_vars/all.yml:4:3: error: unknown key `prot`; did you mean `port`\?$"
    ):
        load(["i.yml"])


def test_a_vars_directory_inside_itself_is_refused() -> None:
    write_files({"group_vars/all/a.yml": "a: 1\n"})
    Path("group_vars/all/more").symlink_to(".")
    Path("group_vars/all/other").symlink_to("../all")
    assert problems({}) == [
        f"group_vars/all/{name}: error: a directory inside itself; remove the link that leads back"
        for name in ("more", "other")
    ]
