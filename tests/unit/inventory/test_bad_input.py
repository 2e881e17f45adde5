"""Invalid files: each file in tests/cases begins with the exact lines that tfprov prints."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest

from tests.support.bad_files import INVENTORIES, PLAYBOOKS, expected
from tests.support.command_output import CommandResult, run_command
from tfprov.errors import InvalidInput, Position
from tfprov.inventory.yaml_source import SETTINGS, read_structure
from tfprov.model.settings import Settings
from tfprov.model.yaml_node import plain
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.load import load
from tfprov.yamltext.load import parse, parse_json_or_yaml, read_bytes

GOOD = """\
all:
  vars:
    tfprov: {cluster: linear, command: [python, linear.py]}
  children:
    worker: {hosts: {localhost: }}
"""


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the state of a case that is accepted by mistake away from the user's own clusters."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_result(content: bytes | str, capsys: pytest.CaptureFixture[str]) -> CommandResult:
    """Return the result of `plan` for an inventory with `content`, without the name of the file."""
    Path("i.yml").write_bytes(content.encode() if isinstance(content, str) else content)
    result = run_command(capsys, "plan", "-i", "i.yml")
    return CommandResult(result.code, tuple(line.removeprefix("i.yml") for line in result.lines), result.out)


@pytest.mark.parametrize("case", INVENTORIES, ids=lambda path: path.stem)
def test_a_bad_inventory_prints_all_its_problems(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(case.parent)
    assert run_command(capsys, "plan", "-i", case.name) == CommandResult(2, tuple(expected(case)))


@pytest.mark.parametrize("case", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_bad_playbook_prints_all_its_problems(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(case.parent)
    assert run_command(capsys, "play", f"./{case.name}") == CommandResult(2, tuple(expected(case)))


def test_every_case_has_a_problem_with_a_fix() -> None:
    assert len(INVENTORIES) >= 260
    assert len(PLAYBOOKS) >= 60
    for case in (*INVENTORIES, *PLAYBOOKS):
        assert expected(case), case
        assert all("; " in line for line in expected(case)), case


def chain(first: str, following: str, count: int) -> str:
    """Return the line `first`, and `count` lines in which N is the number and M the number before it."""
    lines = (following.replace("N", str(n)).replace("M", str(n - 1)) for n in range(1, count))
    return "\n".join([first, *lines])


NOT_UTF_8 = "not UTF-8 text; write it as UTF-8"
TOO_DEEP = "nested more than 32 levels deep; flatten it"
BOMB = "more than 200,000 values once aliases are expanded; write fewer aliases"
NINE = ", ".join(["*aM"] * 9)
HEX, DECIMAL = f"0x{'f' * 55}...", f"{str(2**1024 - 1)[:57]}..."
BYTES: Mapping[str, tuple[bytes | str, str]] = {
    "no bytes": (b"", ": error: empty; start from `tfprov init`"),
    "a byte order mark alone": (b"\xef\xbb\xbf", ": error: empty; start from `tfprov init`"),
    "three dashes alone": (b"---", ":1:1: error: an empty inventory; start from `tfprov init`"),
    "three dashes and a blank line": (b"# x\n---\n\n", ":1:1: error: an empty inventory; start from `tfprov init`"),
    "UTF-16": (GOOD.encode("utf-16"), f":1:1: error: {NOT_UTF_8}"),
    "Latin-1": (GOOD.replace("linear", "gr\xf6\xdfe").encode("latin-1"), f":3:25: error: {NOT_UTF_8}"),
    "a tab": ("all:\n\tvars:\n", ":2:1: error: a tab in the indentation; indent with spaces"),
    "a tab behind spaces": ("all:\n  \tvars:\n", ":2:3: error: a tab in the indentation; indent with spaces"),
    "a null byte": ("# ü\n# ü\0", ":2:4: error: the character `\\x00`, which YAML does not allow; remove it"),
    "an escape": ("all: # ü\x1b[", ":1:9: error: the character `\\x1b`, which YAML does not allow; remove it"),
    "half a pair": (
        'all: "\\ud800"',
        ":1:9: error: half of a UTF-16 pair, which is no character; write the character itself",
    ),
    "a whole number larger than every float": (
        GOOD.replace("{cluster", f"{{port: 0x{'f' * 256}, cluster"),
        f':3:20: error: `{HEX}` is read by YAML as `{DECIMAL}`; write {DECIMAL}, or quote it: "{HEX}"',
    ),
    "2000 lists": ("[" * 2000, f":1:33: error: {TOO_DEEP}"),
    "2000 mappings": ("{a: " * 2000, f":1:129: error: {TOO_DEEP}"),
    "2000 dashes": ("- " * 2000, f":1:65: error: {TOO_DEEP}"),
    "900 indents": ("\n".join(" " * n + "a:" for n in range(900)), f":33:33: error: {TOO_DEEP}"),
    "aliases in aliases": (
        chain("a0: &a0 x", "aN: &aN [*aM]", 2000),
        ":32:6: error: nested more than 32 levels deep once aliases are expanded; flatten it",
    ),
    "an alias bomb": (chain("a0: &a0 [x]", f"aN: &aN [{NINE}]", 9), f":6:5: error: {BOMB}"),
    "a merge bomb": (chain("a0: &a0 {x: 1}", f"aN: &aN {{<<: [{NINE}]}}", 9), f":6:5: error: {BOMB}"),
    "a megabyte": (GOOD + "#" * 1_000_000, ": error: larger than 1,000,000 bytes; split it into several files"),
    "2000 groups": (
        chain("all: {children: {g1: }}", "gM: {children: {gN: }}", 2000),
        ":101:18: error: groups nested more than 100 levels deep; flatten them",
    ),
}


@pytest.mark.parametrize(("content", "line"), BYTES.values(), ids=BYTES)
@pytest.mark.usefixtures("workdir")
def test_bytes_that_are_no_inventory_are_refused(
    content: bytes | str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan_result(content, capsys) == CommandResult(2, (line,))


DIAMOND = "aM: {children: {bN: , cN: }}\nbN: {children: {aN: }}\ncN: {children: {aN: }}"
ACCEPTED: Mapping[str, str] = {
    "Windows line ends": GOOD.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + GOOD,
    "a role beside all": GOOD.replace("  children:\n    ", ""),
    "a group above a role": GOOD + "    workers: {children: {worker: }}\n",
    "a group that is called like nothing of ours": GOOD + "    workstations: {hosts: {other: }}\n",
    "a group without hosts": GOOD + "    gpus:\n",
    "45 diamonds": GOOD + chain("", DIAMOND, 45),
    "a template that nobody needs": GOOD + 'other: {vars: {a: "{{ nope }}"}}\n',
    "merged settings": "x: {vars: &x {port: 22220}}\n" + GOOD.replace("{cluster", "{<<: *x, cluster"),
    "numbers as programs write them": GOOD.replace("command", "flags: {a: .5, b: 1e-3, c: +1, d: 1.0e+3}, command"),
    "a template on the command's index": GOOD.replace("linear.py", "\"{{ ['a.py'][task.index] }}\""),
}


@pytest.mark.parametrize("content", ACCEPTED.values(), ids=ACCEPTED)
def test_an_inventory_that_only_looks_odd_is_accepted(content: str, workdir: Path) -> None:
    path = workdir / "inventory.yml"
    path.write_bytes(content.encode())
    assert assign_tasks(load(path)[1]).tasks


def test_a_problem_of_a_thousand_hosts_is_reported_once(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = GOOD.replace("localhost", '"node[1:1000]"').replace("command: [python, linear.py]", "port: 0")
    assert plan_result(many, capsys).lines == (
        ":3:13: error: `command` is missing for the role `worker`; for example `command: [python, linear.py]`",
        ":3:31: error: `port` must be at least 1, not 0; for example `port: 2222`",
    )


@pytest.mark.parametrize("link", ["../../../etc/passwd", "/etc/passwd"])
def test_a_symlink_out_of_the_code_directory_is_refused(
    link: str, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workdir / "program").mkdir()
    (workdir / "program" / "secret").symlink_to(link)
    result = plan_result(GOOD.replace("command", "code: ./program, command"), capsys)
    what = ":3:31: error: `code`: a link that leads out of the directory: program/secret; "
    assert (result.code, len(result.lines)) == (2, 1)
    assert result.lines[0].startswith(what)


MISALIGNED = "a line that does not fit the indentation above it; align it with the lines it belongs to"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: !x!y z\n", ":1:4: error: a tag that means nothing here; quote a value that starts with `!`"),
        ("a: | text\n", ":1:6: error: text behind `|` or `>`; start the text on the next line"),
        ("a: |9x\n b\n", ":1:6: error: text behind `|` or `>`; start the text on the next line"),
        ("%TAG ! a\n%TAG ! a\n---\na: 1\n", ":2:1: error: a directive that appears twice; remove it"),
        ("%YAML 3.0\n---\na: 1\n", ":1:1: error: a YAML version that is not 1.1 or 1.2; remove the `%YAML` line"),
        ("a: - b\n", ":1:4: error: a list that starts behind its key; start it on the next line, or write `[…]`"),
        ("a: ,\n", ":1:4: error: a comma or bracket where a value should be; complete the value, or quote it"),
        ("a: [b, ,]\n", ":1:8: error: a comma or bracket where a value should be; complete the value, or quote it"),
        ("a: {b: [1,\n", ":1:11: error: the file ends within brackets; close them"),
        ("a: {b: [1, \n\n", ":1:11: error: the file ends within brackets; close them"),
        ("a: [1,", ":1:7: error: the file ends within brackets; close them"),
        (
            "\n" * 6 + "a: [,]\n",
            ":7:5: error: a comma or bracket where a value should be; complete the value, or quote it",
        ),
        ("a: *\n", ":1:5: error: a value that starts with `*` or `&`; quote it"),
        ("a: &\n", ":1:5: error: a value that starts with `*` or `&`; quote it"),
        ('a: "\\uD800"\n', ":1:7: error: half of a UTF-16 pair, which is no character; write the character itself"),
        ("a: 'x\n", ":1:4: error: a quote that is never closed; close it"),
        ('a: "x\n---\nb: 1\n', ":1:4: error: a quote that is never closed; close it"),
        ("a: %x\n", ":1:4: error: a value cannot start with `%`; quote it"),
        ("{a: 1\n", ":1:1: error: a bracket without its `}`, or a comma missing behind it; add `}` or `,`"),
        ("a: [1}\n", ":1:6: error: a `,` or `]` is missing here; add it, or quote the whole value"),
        ("a: {x: 1]\n", ":1:9: error: a `,` or `}` is missing here; add it, or quote the whole value"),
        ("a: 'x' y\n", ":1:8: error: text behind the end of a value; quote the whole value"),
        ("a: &m {x: 1}\nb: {*m : 2}\n", ":2:5: error: a key that is not a single value; write a name"),
        ("a: &k x\nb: {x: 1, *k : 2}\n", ":2:11: error: `x` is set twice (first on line 2); keep one of them"),
        ("a: &s !env X\nb: {*s : 1}\n", ":2:5: error: a secret as a name; write the name itself"),
        ("a:\n    b: 1\n  c: 2\n", f":3:3: error: {MISALIGNED}"),
        ("a:\n    - b\n  - c\n", f":3:3: error: {MISALIGNED}"),
        ("a: *x\n", ":1:4: error: unknown alias `*x`; define the anchor before its use"),
        (
            "a: !<tag:x y\n",
            ":1:11: error: not valid YAML: did not find the expected `>`; check the indentation and quotes around here",
        ),
        (
            "a: 1\n...\nb: 2\n",
            ":3:1: error: a line that is indented less than the first; align the names of the groups",
        ),
    ],
)
def test_a_yaml_syntax_error_has_a_position_and_a_fix(
    text: str, line: str, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan_result(text, capsys) == CommandResult(2, (line,))


def test_ini_where_yaml_is_read_is_named() -> None:
    for text in ("# c\n\n[ps]\nh1\n", "[ps]\nh1\n"):
        with pytest.raises(InvalidInput) as raised:
            parse(text, "group_vars/ps.yml")
        line = text.count("\n")
        assert str(raised.value) == f"group_vars/ps.yml:{line}:1: error: INI, where YAML is read; write `name: value`"


def test_a_missing_space_on_the_first_line_is_named() -> None:
    with pytest.raises(InvalidInput) as raised:
        parse("name:value\nb: 2\n", "f")
    assert str(raised.value) == "f:1:5: error: `name:` without a space behind its colon; write `name: value`"


def test_a_value_that_its_tag_does_not_allow_is_refused() -> None:
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
    for tag, kind in kinds.items():
        with pytest.raises(InvalidInput) as raised:
            parse(f"a: !!{tag} many", "f")
        assert str(raised.value) == f"f:1:4: error: `many` is not {kind}; quote it"
    tagged = (
        "{a: !!int '7', b: !!float '1', c: !!bool 'no', d: !!null 'x', e: !!str 8, f: !!timestamp '2026-01-01', g: =}"
    )
    value = plain(parse(tagged, "f"))
    assert value == {"a": 7, "b": 1.0, "c": False, "d": None, "e": "8", "f": date(2026, 1, 1), "g": "="}


def test_json_of_a_million_bytes_keeps_its_numbers() -> None:
    assert plain(parse_json_or_yaml('{"a": 1e3}'.ljust(1_000_000), "f")) == {"a": 1000.0}
    with pytest.raises(InvalidInput, match=r"^f: error: larger than 1,000,000 bytes; split it into several files$"):
        parse_json_or_yaml('{"a": 1e3}'.ljust(1_000_001), "f")


DEEP = "nested more than 32 levels deep"
VALUES = f"a: &a [{', '.join('0' * 998)}]\nb: [{'*a, ' * 199}"
"""A value of 999 counts itself and its items; keys count, too."""


@pytest.mark.parametrize(
    ("largest", "larger", "message"),
    [
        ("[" * 32 + "]" * 32, "[" * 33 + "]" * 33, f"f:1:33: error: {DEEP}; flatten it"),
        (
            f"a: &a {'{x: ' * 30}1{'}' * 30}\nb: {{c: *a}}",
            f"a: &a {'{x: ' * 31}1{'}' * 31}\nb: {{c: *a}}",
            f"f:1:4: error: {DEEP} once aliases are expanded; flatten it",
        ),
        (
            f"a: &a []\nb: {'[' * 30}*a{']' * 30}",
            f"a: &a []\nb: {'[' * 31}*a{']' * 31}",
            f"f:1:4: error: {DEEP} once aliases are expanded; flatten it",
        ),
        (
            f"{VALUES}{', '.join('1' * 196)}]",
            f"{VALUES}{', '.join('1' * 197)}]",
            "f:2:4: error: more than 200,000 values once aliases are expanded; write fewer aliases",
        ),
        (
            f"a: {'x' * 999_997}",
            f"a: {'x' * 999_998}",
            "f: error: larger than 1,000,000 bytes; split it into several files",
        ),
        (
            f"a: 0x{'f' * 256}",
            f"a: 0x1{'0' * 256}",
            f"f:1:4: error: `0x1{'0' * 54}...` is too large a number; quote it",
        ),
        (
            f"a: 0b{'0' * 1022}",
            f"a: 0b{'0' * 1023}",
            f"f:1:4: error: `0b{'0' * 55}...` is too large a number; quote it",
        ),
    ],
    ids=["levels", "levels by aliases", "an empty level", "values", "bytes", "bits", "digits"],
)
def test_a_file_may_have_all_of_a_limit_and_no_more(largest: str, larger: str, message: str) -> None:
    parse(largest, "f")
    with pytest.raises(InvalidInput) as raised:
        parse(larger, "f")
    assert str(raised.value) == message


def test_of_a_file_without_end_one_byte_more_than_the_limit_is_read() -> None:
    assert len(read_bytes(Path("/dev/zero"), Position("z"), fix="")) == 1_000_001


def test_an_import_without_a_path_is_refused(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workdir / "book.yml").write_text('- import_playbook: "a\\0b"\n')
    line = "book.yml:1:3: error: `a\\x00b` is not a path; correct it"
    assert run_command(capsys, "play", "./book.yml") == CommandResult(2, (line,))
    (workdir / "loop.yml").symlink_to("loop.yml")
    (workdir / "book.yml").write_text("- import_playbook: loop.yml\n")
    assert run_command(capsys, "play", "./book.yml").code == 2


def test_misplaced_settings_are_settings_of_the_model() -> None:
    assert set(SETTINGS) == {"cluster", "command", "strategy", "wiring", "code", "port", "runtime"} & {
        *Settings.model_fields
    }
    keys = {
        "zzz": "a group has `hosts`, `children` and `vars`", "host": "did you mean `hosts`?",
        "tfprov": "put it under `vars:`", "ansible_user": "put it under `vars:`", "worker": "put it under `children:`",
        **dict.fromkeys(SETTINGS, "put it under `vars:`, `tfprov:`"),
    }  # fmt: skip
    for name, fix in keys.items():
        problems = read_structure(parse(f"ps: {{{name}: x, hosts: {{h1: }}}}", "i.yml"), "i.yml")[1]
        assert [str(problem) for problem in problems] == [
            f"i.yml:1:6: error: unknown key `{name}` in group `ps`; {fix}"
        ]
    for name in SETTINGS:
        problems = read_structure(parse(f"{name}: x\nworker: {{}}", "i.yml"), "i.yml")[1]
        fix = "put it under `all:`, `vars:`, `tfprov:`"
        assert [str(problem) for problem in problems] == [
            f"i.yml:1:1: error: `{name}` is at the level of the groups; {fix}"
        ]
    for text, what, dashes in (
        ("ps: x", "group `ps`", ""), ("ps: [x]", "group `ps`", ", without dashes"),
        ("ps: {vars: x}", "`vars` of group `ps`", ""),
        ("ps: {hosts: [h]}", "`hosts` of group `ps`", ", without dashes"), ("ps: {hosts: {h: 1}}", "host `h`", ""),
    ):  # fmt: skip
        [problem] = read_structure(parse(text, "i.yml"), "i.yml")[1]
        assert f"{problem.what}; {problem.fix}" == f"{what} must be a mapping; write one `name:` per line{dashes}"
