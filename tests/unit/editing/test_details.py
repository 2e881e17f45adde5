"""Edits of sparse and unusual inventories, and which problems an edit causes."""

from pathlib import Path

import pytest

from tests.support.command_output import CommandResult, run_command
from tfprov.editing.document import ListIndex, parse_file, unified_diff
from tfprov.editing.files import InventoryFiles
from tfprov.editing.host_edits import find_groups
from tfprov.editing.locate import is_mentioned, join_path, split_path
from tfprov.editing.semantic_diff import NOT_MADE, merged_mappings, new_problems, written_lines
from tfprov.errors import Position, Problem
from tfprov.inventory.host_names import NameKind

BASE = """\
all:
  vars:
    tfprov: {cluster: lab, image: {name: "x:1"}, command: [python, x.py]}
  children:
    ps: {hosts: {h1: }}
"""
WORKERS = "    worker:\n      hosts:\n        h2:\n"
SPARE = "    worker: {hosts: {h2: }}\n    spare:\n      vars:\n"
FLAT = 'worker: {hosts: {h2: }, vars: {tfprov: {cluster: lab, image: {name: "x:1"}, command: [a]}}}\n'


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)


EDITS = {
    "an empty item": (
        BASE + WORKERS + "      vars:\n        l:\n          -   # c\n          - b\n",
        ["set", "--group", "worker", "l[0]", "x"],
        BASE + WORKERS + "      vars:\n        l:\n          - x   # c\n          - b\n",
    ),
    "a value above a comment that is not deeper": (
        BASE + WORKERS + "      vars:\n        a: 1\n          # of a\n        # of b\n        b: 2\n",
        ["unset", "--group", "worker", "a"],
        BASE + WORKERS + "      vars:\n        # of b\n        b: 2\n",
    ),
    "a new value before a comment that is not deeper": (
        BASE + WORKERS + "      vars:\n        a: 1\n          # of a\n        # the end\n",
        ["set", "--group", "worker", "b", "2"],
        BASE + WORKERS + "      vars:\n        a: 1\n          # of a\n        b: 2\n        # the end\n",
    ),
    "an anchored value below a tag": (
        BASE + WORKERS + "      vars:\n        u: !unsafe x\n        n: &y   1 # c\n        m: *y\n",
        ["set", "--group", "worker", "n", "2"],
        BASE + WORKERS + "      vars:\n        u: !unsafe x\n        n: &y   2 # c\n        m: *y\n",
    ),
    "a host in a group that is only named": (
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n",
        ["add-host", "h9", "-g", "spare"],
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n      hosts:\n        h9:\n",
    ),
    "a host with nested variables": (
        BASE + WORKERS,
        ["add-host", "h9", "-g", "worker", "--var", "a.b=1", "--var", "a.c.d=2", "--var", "e=x, y"],
        BASE
        + WORKERS
        + "        h9:\n          a:\n            b: 1\n            c:\n              d: 2\n          e: x, y\n",
    ),
    "a host with nested variables in brackets": (
        BASE + "    worker: {hosts: {h2: {x: 1}}}\n",
        ["add-host", "h9", "-g", "worker", "--var", "a.b=1", "--var", "a.c=2", "--var", "e=x, y"],
        BASE + '    worker: {hosts: {h2: {x: 1}, h9: {a: {b: 1, c: 2}, e: "x, y"}}}\n',
    ),
    "a variable that a later one makes a mapping": (
        BASE + WORKERS,
        ["add-host", "h9", "-g", "worker", "--var", "a=1", "--var", "b=2"],
        BASE + WORKERS + "        h9:\n          a: 1\n          b: 2\n",
    ),
    "a role where `all` has no groups": (
        BASE.partition("  children:")[0] + "worker: {hosts: {h2: }}\n",
        ["add-host", "h1", "-g", "ps"],
        BASE.partition("  children:")[0] + "  children:\n    ps:\n      hosts:\n        h1:\nworker: {hosts: {h2: }}\n",
    ),
    "a variable of all where there is none": (FLAT, ["set", "z", "1"], FLAT + "all:\n  vars:\n    z: 1\n"),
    "a variable of the group all where there is none": (
        FLAT,
        ["set", "--group", "all", "z", "1"],
        FLAT + "all:\n  vars:\n    z: 1\n",
    ),
    "a host of a set": (
        BASE + "    worker: {hosts: {h2}}\n",
        ["set", "--host", "h2", "z", "1"],
        BASE + "    worker: {hosts: {h2: {z: 1}}}\n",
    ),
    "the last line has no end": (
        (BASE + WORKERS).rstrip("\n"),
        ["set", "--host", "h2", "z", "1"],
        BASE + WORKERS + "          z: 1",
    ),
    "a block instead of an anchored one": (
        BASE + SPARE + "        m: &m\n          a: 1\n        n: 2\n",
        ["set", "--group", "spare", "m", "x"],
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n      vars:\n        m: &m x\n        n: 2\n",
    ),
    "a block instead of a block": (
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n      vars:\n        m:\n          a: 1\n        n: 2\n",
        ["set", "--group", "spare", "m", "- 1\n- 2"],
        BASE
        + "    worker: {hosts: {h2: }}\n    spare:\n      vars:\n        m:\n          - 1\n          - 2\n        n: 2\n",
    ),
    "a block instead of an anchored block": (
        BASE + SPARE + "        m: &m\n          a: 1\n        n: 2\n",
        ["set", "--group", "spare", "m", "b: 1\nc: 2"],
        BASE + SPARE + "        m: &m\n          b: 1\n          c: 2\n        n: 2\n",
    ),
    "a new text over several lines": (
        BASE + WORKERS + "          z: 1\n",
        ["set", "--host", "h2", "y", "|\n  one\n  two\n"],
        BASE + WORKERS + "          z: 1\n          y: |\n            one\n            two\n",
    ),
    "a null that is written out becomes a mapping": (
        BASE + "    worker:\n      hosts:\n        h2: null\n        h3: &a ~\n",
        ["set", "--host", "h2", "z", "1"],
        BASE + "    worker:\n      hosts:\n        h2:\n          z: 1\n        h3: &a ~\n",
    ),
    "an anchored null becomes a mapping": (
        BASE + "    worker:\n      hosts:\n        h2: null\n        h3: &a ~\n",
        ["set", "--host", "h3", "z", "1"],
        BASE + "    worker:\n      hosts:\n        h2: null\n        h3: &a\n          z: 1\n",
    ),
    "a variable of a host in a new group": (
        BASE.partition("  children:")[0] + "worker: {hosts: {h2: }}\n",
        ["add-host", "h9", "-g", "ps", "--var", "a=1"],
        BASE.partition("  children:")[0]
        + "  children:\n    ps:\n      hosts:\n        h9:\n          a: 1\nworker: {hosts: {h2: }}\n",
    ),
    "a variable of a host in a group without hosts": (
        BASE + SPARE.replace("vars:", "hosts:"),
        ["add-host", "h9", "-g", "spare", "--var", "a=1"],
        BASE + SPARE.replace("vars:", "hosts:") + "        h9:\n          a: 1\n",
    ),
    "a variable of a host in a group that is only named": (
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n",
        ["add-host", "h9", "-g", "spare", "--var", "a=1"],
        BASE + "    worker: {hosts: {h2: }}\n    spare:\n      hosts:\n        h9:\n          a: 1\n",
    ),
    "a host of all where there is none": (FLAT, ["add-host", "h9", "-g", "all"], FLAT + "all:\n  hosts:\n    h9:\n"),
    "an ungrouped host where there is none": (
        FLAT,
        ["add-host", "h9", "-g", "ungrouped"],
        FLAT + "ungrouped:\n  hosts:\n    h9:\n",
    ),
    "a host of all that is in no other group": (
        FLAT + "all:\n  hosts:\n    h9:\n",
        ["add-host", "h9", "-g", "ungrouped"],
        FLAT + "all:\n  hosts:\n    h9:\n  children:\n    ungrouped:\n      hosts:\n        h9:\n",
    ),
    "a value below a key with a dot": (
        BASE + WORKERS + "          a.b: {c: 1}\n",
        ["set", "--host", "h2", "a.b.c", "2"],
        BASE + WORKERS + "          a.b: {c: 2}\n",
    ),
    "a variable whose name has a comma": (
        BASE + WORKERS,
        ["add-host", "h9", "-g", "worker", "--var", '"p, q"=1'],
        BASE + WORKERS + "        h9:\n          p, q: 1\n",
    ),
    "a variable whose name has a comma in brackets": (
        BASE + "    worker: {hosts: {h2: {x: 1}}}\n",
        ["add-host", "h9", "-g", "worker", "--var", '"p, q"=1'],
        BASE + '    worker: {hosts: {h2: {x: 1}, h9: {"p, q": 1}}}\n',
    ),
    "a host beside an empty mapping": (
        BASE + "    worker:\n      hosts:\n        h2: {}\n",
        ["add-host", "h9", "-g", "worker"],
        BASE + "    worker:\n      hosts:\n        h2: {}\n        h9: {}\n",
    ),
    "a host beside a null that is written out": (
        BASE + "    worker:\n      hosts:\n        h2: ~\n",
        ["add-host", "h9", "-g", "worker"],
        BASE + "    worker:\n      hosts:\n        h2: ~\n        h9: ~\n",
    ),
    "an anchor without a value becomes a mapping": (
        BASE + "    worker:\n      hosts:\n        h2: &a\n        h3: *a\n",
        ["set", "--host", "h2", "z", "1"],
        BASE + "    worker:\n      hosts:\n        h2: &a\n          z: 1\n        h3: *a\n",
    ),
    "a text whose last line break the shell has removed": (
        BASE + WORKERS + "          z: 1\n",
        ["set", "--host", "h2", "y", "|\n  one\n  two"],
        BASE + WORKERS + "          z: 1\n          y: |\n            one\n            two\n",
    ),
    "a text over several lines in a last line without an end": (
        (BASE + WORKERS + "          z: 1").rstrip("\n"),
        ["set", "--host", "h2", "z", "|-\n  one\n  two"],
        BASE + WORKERS + "          z: |-\n            one\n            two",
    ),
}


@pytest.mark.parametrize(("before", "argv", "after"), EDITS.values(), ids=EDITS)
def test_sparse_and_unusual_files_are_edited(
    before: str, argv: list[str], after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("i.yml")
    path.write_text(before)
    result = run_command(capsys, "inventory", argv[0], "-i", str(path), *argv[1:])
    assert (result.code, result.lines) == (0, ())
    assert path.read_text() == after


def test_a_new_role_follows_the_others_in_a_file_without_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("group_vars").mkdir()
    Path("group_vars/all.yml").write_text('tfprov: {cluster: lab, image: {name: "x:1"}, command: [a]}\n')
    Path("i.yml").write_text("worker: {hosts: {h2: }}\n")
    assert run_command(capsys, "inventory", "add-host", "-i", "i.yml", "h1", "-g", "ps").lines == ()
    assert Path("i.yml").read_text() == "worker: {hosts: {h2: }}\nps:\n  hosts:\n    h1:\n"


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_a_renamed_host_keeps_its_quotes(quote: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = BASE + f"    worker:\n      hosts:\n        {quote}h2{quote}:\n"
    Path("i.yml").write_text(before)
    assert run_command(capsys, "inventory", "move-host", "-i", "i.yml", "h2", "h3").code == 0
    assert Path("i.yml").read_text() == before.replace("h2", "h3")


@pytest.mark.parametrize(("name", "key"), [("fd00::2", '"[fd00::2]:2222"'), ("h3", '"h3:2222"')])
def test_an_ipv6_address_with_a_port_can_be_renamed(name: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = BASE + '    worker:\n      hosts:\n        "[fd00::1]:2222": {tfprov: {address: 10.0.0.1}}\n'
    Path("i.yml").write_text(before)
    assert run_command(capsys, "inventory", "move-host", "-i", "i.yml", "fd00::1", name).lines == ()
    assert Path("i.yml").read_text() == before.replace('"[fd00::1]:2222"', key)


def with_range(text: str) -> str:
    return BASE + f"    worker:\n      hosts:\n        {text}:\n"


AT = "i.yml:8:9: error: "
REFUSED = {
    "one of two": (with_range("n[1:2]"), ["remove-host", "n2"], (f"{AT}n2 is one of `n[1:2]`; write `n1`: "
                   "`tfprov inventory move-host 'n[1:2]' 'n1'`")),
    "the first of three": (with_range("n[1:3]"), ["remove-host", "n1"], (f"{AT}n1 is one of `n[1:3]`; write `n[2:3]`: "
                           "`tfprov inventory move-host 'n[1:3]' 'n[2:3]'`")),
    "in the middle": (with_range("n[01:05].x"), ["move-host", "n03.x", "m"],
                      f"{AT}n03.x is one of `n[01:05].x`; write `n[01:02].x` and `n[04:05].x` there, then move it"),
    "between two": (with_range("n[1:3]"), ["remove-host", "n2"],
                    f"{AT}n2 is one of `n[1:3]`; write `n1` and `n3` there, then remove it"),
    "with a port": (with_range("n[1:3]:22"), ["remove-host", "n3"], (f"{AT}n3 is one of `n[1:3]:22`; "
                    "write `n[1:2]:22`: `tfprov inventory move-host 'n[1:3]:22' 'n[1:2]:22'`")),
    "every second": (with_range("n[1:9:2]"), ["remove-host", "n3"],
                     f"{AT}n3 is one of `n[1:9:2]`; write its hosts one by one, then remove it"),
    "letters": (with_range("n[a:c]"), ["remove-host", "nb"],
                f"{AT}nb is one of `n[a:c]`; write its hosts one by one, then remove it"),
    "two ranges": (with_range("n[1:2]m[1:2]"), ["remove-host", "n1m1"],
                   f"{AT}n1m1 is one of `n[1:2]m[1:2]`; write its hosts one by one, then remove it"),
    "no path": (BASE + WORKERS, ["set", "tfprov..x", "1"],
                "error: `tfprov..x` is not a path; for example `tfprov.flags.train_steps` or `tfprov.command[0]`"),
    "a path that begins with a dot": (
        BASE + WORKERS, ["set", ".tfprov.x", "1"],
        "error: `.tfprov.x` is not a path; for example `tfprov.flags.train_steps` or `tfprov.command[0]`",
    ),
    "a role where `children` is an alias": (
        "x: {children: &c {ps: }}\n" + BASE.partition("  children:")[0] + "  children: *c\n",
        ["add-host", "h9", "-g", "evaluator"],
        "i.yml:5:13: error: `children` is an alias, `*c`; add it where the alias is defined",
    ),
    "an empty path": (BASE + WORKERS, ["set", "", "1"], "error: `` is not a path; for example `tfprov.flags.train_steps`"),
    "a long path": (BASE + WORKERS, ["set", ".".join("a" * 33), "1"],
                    f"error: `{'a.' * 28}a...` is not a path; for example `tfprov.flags.train_steps`"),
    "below a value": (BASE + WORKERS, ["set", "tfprov.cluster.x", "1"],
                      "i.yml:3:23: error: a single value, so nothing can be below it: `x`; set this value itself"),
    "nothing below a value": (BASE + WORKERS, ["unset", "tfprov.cluster.x"],
                              "i.yml:3:23: error: a single value, so nothing can be below it: `x`; set this value itself"),
    "a mistaken name": (BASE + WORKERS, ["unset", "tfprov.clutser"],
                        "i.yml:3:13: error: nothing is called `tfprov.clutser` here; did you mean `cluster`?"),
    "another name": (BASE + WORKERS, ["unset", "tfprov.zzz"], ("i.yml:3:13: error: nothing is called `tfprov.zzz` here; "
                     "`tfprov inventory explain HOST` shows where values are set")),
    "an element too far": (BASE + WORKERS, ["set", "tfprov.command[9]", "1"],
                           "i.yml:3:59: error: a list of 2, so there is no `[9]`; `[2]` adds an element"),
    "below an element to come": (BASE + WORKERS, ["set", "tfprov.command[2].x", "1"],
                                 "i.yml:3:59: error: there is no `[2]` to set `x` in; add it first"),
    "a comment beside it": (
        BASE + "    worker: {hosts: {h2: }, vars: {env: {A: 1, # c\n      B: 2}}}\n",
        ["unset", "--group", "worker", "env.A"],
        ("i.yml:6:42: error: this cannot be changed without changing more of the text: "
        "there is a comment beside it; edit the file by hand"),
    ),
    "a key without a value": (
        BASE + WORKERS + "    spare:\n      vars:\n        ? m\n        ? n\n",
        ["set", "--group", "spare", "m", "- 1\n- 2"],
        ("i.yml:11:9: error: this cannot be changed without changing more of the text: "
        "there is a key without a value; edit the file by hand"),
    ),
    "an anchor in use": (
        BASE + WORKERS + "      vars:\n        a: {b: &x 1}\n        m: *x\n", ["set", "--group", "worker", "a", "2"],
        "i.yml:10:16: error: `&x` is defined here, and line 11 needs it; replace `*x` on line 11 first",
    ),
    "an anchor in use that goes": (
        BASE + WORKERS + "      vars:\n        a: {b: &x 1}\n        m: *x\n", ["unset", "--group", "worker", "a"],
        "i.yml:10:16: error: `&x` is defined here, and line 11 needs it; replace `*x` on line 11 first",
    ),
    "a host beside an invalid range": (with_range("n[5:1]"), ["remove-host", "n3"],
                                       "error: no host `n3` in the inventory; see `tfprov inventory graph`"),
    "no such host": (BASE + WORKERS, ["set", "--host", "h3x", "z", "1"],
                     "error: no host `h3x` in the inventory; see `tfprov inventory graph`"),
    "a mistaken host": (BASE + WORKERS, ["set", "--host", "h22", "z", "1"],
                        "error: no host `h22` in the inventory; did you mean `h2`?"),
    "a mistaken group": (BASE + WORKERS, ["add-host", "h9", "-g", "wroker"],
                         "error: no group `wroker`; did you mean `worker`?"),
    "another group": (BASE + WORKERS, ["add-host", "h9", "-g", "zzz"],
                      "error: no group `zzz`; write it into the inventory first"),
    "a group that is a value": (
        BASE + "    worker: {hosts: {h2: }}\n    spare: one\n", ["add-host", "h9", "-g", "spare"],
        "i.yml:7:12: error: group `spare` must be a mapping to be added to; write one `name:` per line",
    ),
    "a group that is an alias": (
        BASE + "    worker: &w {vars: {a: 1}}\n    spare: *w\n", ["add-host", "h9", "-g", "spare"],
        "i.yml:7:12: error: group `spare` is an alias, `*w`; add it where the alias is defined",
    ),
    "a group whose children are a value": (
        BASE.partition("  children:")[0] + "  children: x\n", ["add-host", "h9", "-g", "ps"],
        "i.yml:4:13: error: `children` must be a mapping to be added to; write one `name:` per line",
    ),
    "a new host by a path": (BASE + WORKERS, ["set", "all.children.worker.hosts.h9.z", "1"],
                             "i.yml:8:9: error: there is no host `h9` here; add it with `tfprov inventory add-host`"),
    "a new group by a path": (BASE + WORKERS, ["set", "all.children.spare.vars.z", "1"],
                              "i.yml:5:5: error: there is no group `spare` here; write it into the file first"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "argv", "line"), REFUSED.values(), ids=REFUSED)
def test_a_refused_edit_names_the_reason(
    before: str, argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("i.yml")
    path.write_text(before)
    assert run_command(capsys, "inventory", argv[0], "-i", str(path), *argv[1:]) == CommandResult(2, (line,), "")
    assert path.read_text() == before


def test_a_host_of_an_ini_file_is_not_edited_though_its_variables_are_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hosts").write_text("[worker]\nh1\n")
    Path("more").write_text("[ps]\nh0\n")
    Path("host_vars").mkdir()
    Path("host_vars/h1.yml").write_text("a: 1\n")
    line = "error: hosts is no YAML file, and tfprov edits no others; edit it by hand"
    for argv in (["remove-host", "h1"], ["move-host", "h1", "h2"], ["add-host", "h2", "-g", "worker"]):
        assert run_command(capsys, "inventory", argv[0], "-i", "hosts", "-i", "more", *argv[1:]) == CommandResult(
            2, (line,), ""
        )
    assert run_command(capsys, "inventory", "set", "-i", "hosts", "--host", "h1", "a", "2").code == 0
    assert Path("host_vars/h1.yml").read_text() == "a: 2\n"


def test_a_diff_hides_passwords_and_shows_where_a_last_line_has_no_end() -> None:
    before = "a: 1\r\nansible_password: x\nb:\nc:\nd:\ne:\nf:\n"
    assert unified_diff("i.yml", before, before.replace(": x", ": y").removesuffix("\n") + " \x1b") == [
        "--- i.yml (before)", "+++ i.yml (after)", "@@ -1,7 +1,7 @@", " a: 1", "-ansible_password…", "+ansible_password…",
        " b:", " c:", " d:", " e:", "-f:", "+f: \ufffd", "\\ No newline at end of file",
    ]  # fmt: skip


def test_a_diff_shows_three_lines_around_a_change() -> None:
    lines = [*"abcdefghi"]
    before, after = ("".join(f"{line}\n" for line in (*lines[:4], changed, *lines[5:])) for changed in "eE")
    assert unified_diff("secrets", before, after)[:2] == ["--- secrets (before)", "+++ secrets (after)"]
    assert unified_diff("f", before, after)[2:] == ["@@ -2,7 +2,7 @@", " b", " c", " d", "-e", "+E", " f", " g", " h"]


def test_a_path_has_32_names_at_most() -> None:
    assert split_path(".".join("a" * 32)) == ["a"] * 32
    names = split_path("""a.'b.c'."d e"[3].4""")
    assert (names, [isinstance(name, ListIndex) for name in names]) == (
        ["a", "b.c", "d e", "3", "4"],
        [False] * 3 + [True, False],
    )
    assert join_path(["a", "b.c", "", "d e", "it's", "x[0]"]) == """a."b.c".""."d e"."it's"."x[0]\""""


def test_a_mention_has_the_position_of_its_group() -> None:
    source = parse_file((BASE + WORKERS).encode(), "i.yml")
    assert [(mention.group, str(mention.at)) for mention in find_groups(source)] == [
        ("all", "i.yml:1:1"),
        ("ps", "i.yml:5:5"),
        ("worker", "i.yml:6:5"),
    ]
    merged = parse_file(b"x: &x {a: 1}\nall:\n  <<: *x\n  children:\n    <<: {b: }\n    c:\n", "i.yml")
    assert [mention.group for mention in find_groups(merged)] == ["x", "all", "c"]


def test_merged_mappings_are_in_the_order_in_which_they_win() -> None:
    anchors = b"a: &a {x: 1}\nb: &b {x: 2}\nc: &c {}\n"
    document = parse_file(anchors + b"d:\n  <<: *a\n  <<: [*c, *b]\n  <<: *c\n", "i.yml").document
    assert [document.line_number(one.start) for one in merged_mappings(document, document.at((3,)))] == [3, 3, 2, 1]
    keys = [
        parse_file(text, "i.yml").document.root.key("<<")
        for text in (b"a: 1\n<<: {}\n", b'a: 1\n"<<": {}\n', b"a: 1\n")
    ]
    assert keys == [None, 1, None], "only in quotes it is a key"


def test_a_group_or_host_is_mentioned_by_its_name_or_a_range() -> None:
    source = parse_file(with_range("n[5:1]:\n        n[1:3]:22").encode(), "i.yml")
    files = InventoryFiles((source,), (), ())
    groups = {name: is_mentioned(files, NameKind.GROUP, name) for name in ("all", "ungrouped", "worker", "h1", "spare")}
    assert groups == {"all": True, "ungrouped": True, "worker": True, "h1": False, "spare": False}
    hosts = {name: is_mentioned(files, NameKind.HOST, name) for name in ("h1", "n2", "n4", "ps")}
    assert hosts == {"h1": True, "n2": True, "n4": False, "ps": False}


def test_of_several_files_the_first_gets_a_variable_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("i.yml").write_text(FLAT)
    Path("j.yml").write_text("ps: {hosts: {h1: }}\n")
    result = run_command(capsys, "inventory", "set", "-i", "i.yml", "-i", "j.yml", "z", "1")
    assert result.out.startswith("set z of group all (i.yml:2)\n")


def test_a_new_variable_is_added_to_a_section_before_a_vars_file_and_to_that_before_a_new_section(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("group_vars").mkdir()
    Path("group_vars/worker.yml").write_text("a: 1\n")
    second = "worker: {hosts: {h3: }}\n"
    for first, place in (
        (FLAT, "group worker (i.yml:1)"),
        (BASE + WORKERS, "group_vars/worker (group_vars/worker.yml:2)"),
    ):
        Path("i.yml").write_text(first)
        Path("j.yml").write_text(second)
        result = run_command(capsys, "inventory", "set", "-i", "i.yml", "-i", "j.yml", "--group", "worker", "z", "1")
        assert result.out.startswith(f"set z of {place}\n")


# --- problems that an edit causes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb\nc\n", "a\nx\nc\n", (2, 2)),
        ("a\nb\nc\n", "a\nb\nx\ny\nc\n", (3, 4)),
        ("a\nb\nc\n", "a\nc\n", (2, 1)),
        ("a\n", "a\nb\n", (2, 2)),
        ("a\n", "b\na\n", (1, 1)),
        ("a\na\n", "a\na\na\n", (3, 3)),
        ("a", "b", (1, 1)),
        ("a\n", "a\n", (3, 2)),
    ],
)
def test_the_written_lines_are_computed(before: str, after: str, lines: tuple[int, int]) -> None:
    assert written_lines(before, after) == lines


def problem(line: int, what: str, fix: str = "mend it", file: str = "i.yml") -> Problem:
    return Problem(Position(file, line, 1), what, fix)


def test_problems_that_did_not_exist_before_are_new() -> None:
    before = [problem(2, "one, see line 9"), problem(4, "one, see line 9"), problem(5, "two")]
    texts = {"i.yml": ("a\nb\nc\nd\ne\n", "a\nb\nX\nc\nd\ne\n")}
    moved = [problem(2, "one, see line 10"), problem(5, "one, see line 10"), problem(6, "two")]
    assert new_problems(before, moved, texts) == []
    assert new_problems(before, [*moved, problem(3, "three")], texts) == [problem(3, "three", f"mend it {NOT_MADE}")]
    assert new_problems(before, [*moved, problem(9, "three")], texts) == [problem(9, "three", f"mend it {NOT_MADE}")]
    assert new_problems([], [problem(1, "three", "")], texts) == [problem(1, "three", NOT_MADE)]
    again = [*moved, problem(6, "two")]
    assert [problem.what for problem in new_problems(before, again, texts)] == ["two"], "there is one more of them"


def test_after_a_fix_only_problems_on_written_lines_are_new() -> None:
    before = [problem(2, "one")]
    texts = {"i.yml": ("a\nb\nc\nd\ne\n", "a\nX\nY\nd\ne\n")}
    light = [problem(number, f"after {number}") for number in range(1, 6)] + [problem(2, "elsewhere", file="j.yml")]
    assert [problem.what for problem in new_problems(before, light, texts)] == ["after 2", "after 3"]


SECTIONS = """\
all:
  vars:
    tfprov: {cluster: lab, image: {name: "x:1"}, command: [python, x.py]}
    hosts:
      one: 1
  children:
    ps: {hosts: {h1: }}
    worker:
      hosts:
        h2:
          a: 1
      vars:
        b: 1
      children:
        more:
          hosts:
            h3:
extra:
  vars: {c: 1}
"""


def test_only_sections_and_groups_of_an_inventory_become_empty_and_variables_become_empty_mappings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("i.yml").write_text(SECTIONS)
    Path("group_vars").mkdir()
    Path("group_vars/worker.yml").write_text("hosts:\n  a: 1\nchildren:\n  c: {}\n")
    for argv in (
        ["set", "--group", "worker", "children.b.vars.x", "2"],
        ["unset", "--group", "worker", "hosts.a"],
        ["unset", "--host", "h2", "a"],
        ["unset", "--group", "worker", "b"],
        ["unset", "all.vars.hosts.one"],
        ["unset", "all.children.worker.children.more"],
        ["unset", "all.children.worker.children"],
        ["unset", "extra.vars"],
    ):
        assert run_command(capsys, "inventory", argv[0], "-i", "i.yml", *argv[1:]).code == 0, argv
    text = "hosts: {}\nchildren:\n  c: {}\n  b:\n    vars:\n      x: 2\n"
    assert Path("group_vars/worker.yml").read_text() == text, "these are variables, whatever their names are"
    assert Path("i.yml").read_text() == SECTIONS.partition("    hosts:\n")[0] + (
        "    hosts: {}\n  children:\n    ps: {hosts: {h1: }}\n    worker:\n      hosts:\n        h2:\n      vars:\nextra:\n"
    )
