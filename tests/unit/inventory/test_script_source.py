"""Inventory scripts: their output is read as in Ansible, and every failure is one line."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.waiting import until
from tfprov.errors import InvalidInput
from tfprov.inventory.builder import InventoryBuilder
from tfprov.inventory.script_source import add_script
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain
from tfprov.settings.load import load_inventory

LIST = """\
{"_meta": {"hostvars": {"h1": {"a": 1, "n": 1e3}, "nobody": {"b": 2}}},
 "worker": {"hosts": ["h1", "h[1:3]"], "vars": {"v": [1, {"x": null}]}, "children": ["gpu"]},
 "gpu": ["h2"], "h9": {"ansible_port": 22}}
"""


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(text: str, name: str = "inv.sh") -> str:
    Path(name).write_text(text)
    Path(name).chmod(0o755)
    return name


def prints(text: str) -> str:
    Path("printed").write_text(text)
    return script("#!/bin/sh\ncat printed\n")


def read(path: str, timeout: float = 30) -> Inventory:
    builder = InventoryBuilder()
    add_script(builder, path, timeout=timeout)
    assert builder.problems == []
    return builder.inventory(path)


def script_error(path: str, timeout: float = 30) -> str:
    with pytest.raises(InvalidInput) as raised:
        add_script(InventoryBuilder(), path, timeout=timeout)
    return str(raised.value)


def test_a_script_prints_groups_hosts_and_variables() -> None:
    printed = LIST.replace('"h[1:3]"', '"h3"')
    inventory = read(prints(printed))
    assert {name: group.hosts for name, group in inventory.groups.items() if group.hosts} == {
        "worker": ("h1", "h3"),
        "gpu": ("h2",),
        "h9": ("h9",),
    }
    assert inventory.members("worker") == ("h1", "h3", "h2")
    assert plain(inventory.variables("h1")) == {"v": [1, {"x": None}], "a": 1, "n": 1000.0}
    assert plain(inventory.variables("h9")) == {"ansible_port": 22}
    assert inventory.hosts["h1"].at.file == "inv.sh"


def test_without_meta_the_script_runs_once_for_every_host() -> None:
    path = script(
        "#!/bin/sh\n"
        """if [ "$1" = --list ]; then echo '{"worker": {"hosts": ["h1", "h2", "h3"]}}'\n"""
        """elif [ "$2" = h2 ]; then echo '{"who": "h2"}'\n"""
        "fi\n"
    )
    inventory = read(path)
    assert {name: plain(inventory.variables(name)) for name in inventory.hosts} == {
        "h1": {},
        "h2": {"who": "h2"},
        "h3": {},
    }


def test_vault_and_unsafe_values_in_json_are_read() -> None:
    inventory = read(
        prints('{"w": {"hosts": ["h"], "vars": {"u": {"__ansible_unsafe": "{{ x }}"}}}, "_meta": {"hostvars": {}}}')
    )
    node = inventory.variables("h").entries["u"]
    assert plain(node) == "{{ x }}"
    assert getattr(node, "literal", False)


def test_an_executable_file_is_a_script_and_gets_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICH", "h7")
    script('#!/bin/sh\nprintf \'{"worker": {"hosts": ["%s"]}, "_meta": {"hostvars": {}}}\' "$WHICH"\n', "hosts")
    assert list(load_inventory(["hosts"]).hosts) == ["h7"]


BY_HAND = "run `inv.sh --list` by hand"
CORRECT = "(run with `--list`); correct the script"
DEEP = f"printed JSON nested more than 32 levels deep {CORRECT}"
PRINTED: Mapping[str, tuple[str, str]] = {
    "nothing": (" \n", f"printed nothing {CORRECT}"),
    "no JSON": ("all:\n", f"printed no JSON: line 1 column 1: expecting value {CORRECT}"),
    "half of JSON": ('{"a":\n{"b"', f"printed no JSON: line 2 column 5: expecting `:` delimiter {CORRECT}"),
    "a list": ("[]", f"its output must be a JSON object, not a list {CORRECT}"),
    "a number": ("1", f"its output must be a JSON object, not a number {CORRECT}"),
    "hosts that are no list": ('{"w": {"hosts": {"a": 1}}}', f"`w.hosts` must be a list of names, not a mapping {CORRECT}"),
    "hosts that are no names": (
        '{"w": {"hosts": [1]}}',
        f"`w.hosts` must be a list of names, not a list of other values {CORRECT}",
    ),
    "a group that is a number": ('{"w": 1}', f"`w.hosts` must be a list of names, not a number {CORRECT}"),
    "hosts that are true": ('{"w": {"hosts": true}}', f"`w.hosts` must be a list of names, not true or false {CORRECT}"),
    "hosts that are null": ('{"w": {"hosts": null}}', f"`w.hosts` must be a list of names, not null {CORRECT}"),
    "variables that are text": ('{"w": {"vars": "x"}}', f"`w.vars` must be a JSON object, not text {CORRECT}"),
    "variables that are no mapping": ('{"w": {"vars": []}}', f"`w.vars` must be a JSON object, not a list {CORRECT}"),
    "children that are no list": ('{"w": {"children": "x"}}', f"`w.children` must be a list of names, not text {CORRECT}"),
    "meta that is no mapping": ('{"_meta": 1}', f"`_meta` must be a JSON object, not a number {CORRECT}"),
    "no hostvars": ('{"_meta": {}}', f"`_meta.hostvars` must be a JSON object, not null {CORRECT}"),
    "hostvars of a host": (
        '{"w": ["h"], "_meta": {"hostvars": {"h": []}}}',
        f"the variables of host `h` must be a JSON object, not a list {CORRECT}",
    ),
    "too deep": ('{"w": {"vars": {"a": ' + "[" * 40 + "]" * 40 + "}}}", DEEP),
    "far too deep": ("[" * 200_000, DEEP),
    "a number without end": ('{"w": {"vars": {"a": ' + "1" * 5000 + "}}}", "printed no JSON: "),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), PRINTED.values(), ids=PRINTED)
def test_output_that_is_no_inventory_is_refused(text: str, message: str) -> None:
    line = script_error(prints(text))
    assert line.startswith(f"inv.sh: error: {message}")
    assert len(line.splitlines()) == 1


def test_a_value_may_have_all_levels_and_no_more() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        inside = '{"w": {"hosts": ["h"], "vars": {"a": %s1%s}}, "_meta": {"hostvars": {}}}'
        assert "a" in read(prints(inside % (opening * 31, closing * 31))).variables("h").entries
        assert script_error(prints(inside % (opening * 32, closing * 32))) == f"inv.sh: error: {DEEP}"


def test_a_failure_for_one_host_names_its_command() -> None:
    Path("deep").write_text('{"a":' + "[" * 33 + "]" * 33 + "}")
    ends = """#!/bin/sh\n[ "$1" = --list ] && echo '{"w": ["h1"]}' && exit\n%s\n"""
    for command, message in (
        ("exit 3", "ended with exit code 3 with `--host`; run `inv.sh --host h1` by hand"),
        ("echo '[]'", "its output must be a JSON object, not a list (run with `--host h1`); correct the script"),
        ("cat deep", DEEP.replace("--list", "--host h1")),
        ("echo '['", "printed no JSON: line 2 column 1: expecting value (run with `--host h1`); correct the script"),
    ):
        assert script_error(script(ends % command)) == f"inv.sh: error: {message}"


HANGS = f"did not end within 0.5 s with `--list`; {BY_HAND}"
FIRST_LINE = "correct its first line, such as `#!/usr/bin/env python3`"
RUN: Mapping[str, tuple[str, str]] = {
    "it fails": (
        "#!/bin/sh\necho first >&2; echo \"cannot 'log in'\" >&2; exit 3\n",
        f"ended with exit code 3 with `--list`: cannot `log in`; {BY_HAND}",
    ),
    "it fails in another encoding": (
        "#!/bin/sh\nprintf 'gr\\374n\\n' >&2; exit 3\n",
        f"ended with exit code 3 with `--list`: gr\ufffdn; {BY_HAND}",
    ),
    "it fails silently": ("#!/bin/sh\nexit 1\n", f"ended with exit code 1 with `--list`; {BY_HAND}"),
    "it is killed": ("#!/bin/sh\nkill -9 $$\n", f"was killed by signal 9 with `--list`; {BY_HAND}"),
    "it hangs": ("#!/bin/sh\nsleep 600\n", HANGS),
    "it hangs with its outputs closed": ("#!/bin/sh\nexec >&- 2>&-\nsleep 600\n", HANGS),
    "it goes on in the background": ("#!/bin/sh\nsleep 600 &\necho '{}'\n", HANGS),
    "its interpreter does not exist": (
        "#!/no/such/python\n",
        f"cannot be run: its interpreter does not exist; {FIRST_LINE}",
    ),
    "its interpreter is a directory": ("#!/tmp\n", f"cannot be run: permission denied; {FIRST_LINE}"),
    "no UTF-8": ("#!/bin/sh\nprintf '{\"\\377\": 1}'\n", f"printed text that is not UTF-8 {CORRECT}"),
}


@pytest.mark.parametrize(("text", "message"), RUN.values(), ids=RUN)
def test_a_failing_script_is_reported(text: str, message: str) -> None:
    hangs = "600" in text
    assert script_error(script(text), timeout=0.5 if hangs else 300) == f"inv.sh: error: {message}"


def test_the_output_of_a_script_is_limited() -> None:
    message = f"inv.sh: error: printed more than 64,000,000 bytes with `--list`; {BY_HAND}"
    assert script_error(script("#!/bin/sh\nyes\n")) == message


def test_the_children_of_a_script_are_killed_with_it() -> None:
    path = script("#!/bin/sh\nsleep 600 & echo $! > pid\nexec yes\n")
    assert "printed more than" in script_error(path)
    pid = int(Path("pid").read_text())
    until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_names_that_a_script_prints_are_checked() -> None:
    path = prints('{"-w": ["h"], "w": {"hosts": ["me@h"], "children": ["all", "{{ x }}"]}, "_meta": {"hostvars": {}}}')
    builder = InventoryBuilder()
    add_script(builder, path)
    assert [problem.what for problem in builder.problems] == [
        "group name `-w` is not valid",
        "host name `me@h` is not valid",
        "group `all` cannot be a child of another",
        "group name `{{ x }}` is not valid",
    ]


def test_a_failing_script_is_reported_with_the_other_problems() -> None:
    script("#!/bin/sh\nexit 1\n")
    Path("i.yml").write_text("worker: {hots: }\n")
    with pytest.raises(InvalidInput) as raised:
        load_inventory(["inv.sh", "i.yml"])
    assert [problem.at.file for problem in raised.value.problems] == ["i.yml", "inv.sh"]
