"""What templates render to that read other hosts, files and the environment, and their errors, whole."""

import os
from typing import Any

import pytest

from tfprov.errors import InvalidInput, Position
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import Mapping, plain
from tfprov.settings.load import load_inventory
from tfprov.templating.host_values import TemplateProblems, Variables
from tfprov.templating.magic_vars import HostVars, add_task_variables, render_task_settings
from tfprov.templating.render import render_node
from tfprov.yamltext.load import parse

CHAIN = "".join(f"    n{number}: '{{{{ n{number + 1} }}}}'\n" for number in range(33))
INVENTORY = f"""\
all:
  vars:
    l: [1]
    m: {{x: 1}}
    when: 2026-01-02
    a_password: "{{{{ nope }}}}"
    b_password: "{{{{ m.q }}}}"
    ansible_password: never-shown
    c1: "{{{{ c2 }}}}"
    c2: "{{{{ c1 }}}}"
{CHAIN}    n33: 1
worker: {{hosts: {{h1: , h2: }}}}
"""
AT = Position("i.yml", 3, 5)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    """Return an inventory with a few files beside it."""
    directory = tmp_path_factory.mktemp("inventory")
    (directory / "i.yml").write_text(INVENTORY)
    (directory / "most").write_text("x" * 1_000_000)
    (directory / "large").write_text("x" * 1_000_001)
    (directory / "raw").write_bytes(b"\xff")
    (directory / "sub").mkdir()
    os.mkfifo(directory / "pipe")
    return load_inventory(directory / "i.yml")


@pytest.fixture
def names(inventory: Inventory) -> Variables:
    """Return the variables of a host, of which none has been rendered: how long a chain is depends on that."""
    return HostVars(inventory)["h1"]


def result(text: str, names: Variables) -> Any:
    """Return the value of a template, or its error in full."""
    try:
        return plain(render_node(text, names, AT))
    except InvalidInput as error:
        return [f"{problem.what}; {problem.fix}" for problem in error.problems]


FAILED, CORRECT, NAME = "the template failed:", "correct the expression", "correct the name or the number"
DEFINE = "define it under `vars:` or give it with `-e`"
BELOW = "it is not below the directory of the inventory; allow its directory with `--lookup-dir`"
TASK = "is not known here; use it in `command`, `flags` or `env`"
ERRORS = {
    "lookup('pipe', 'x')": f"{FAILED} no lookup `pipe` here: there are `env`, `file`, `vars`; {CORRECT}",
    "lookup(5, 'x')": f"{FAILED} no lookup `5` here: there are `env`, `file`, `vars`; {CORRECT}",
    "lookup('file', 'large')": f"{FAILED} lookup of the file `large`: larger than 1,000,000 bytes; {CORRECT}",
    "lookup('file', 'sub')": f"{FAILED} lookup of the file `sub`: is a directory; {CORRECT}",
    "lookup('file', 'pipe')": f"{FAILED} lookup of the file `pipe`: not a regular file; {CORRECT}",
    "lookup('file', 'raw')": f"{FAILED} lookup of the file `raw`: not UTF-8 text; {CORRECT}",
    "lookup('file', 'no')": f"{FAILED} lookup of the file `no`: no such file or directory; {CORRECT}",
    "lookup('file', '/etc/passwd')": f"{FAILED} lookup of the file `/etc/passwd`: {BELOW}",
    "lookup('vars', 'nope')": f"undefined variable `nope`; {DEFINE}",
    **{
        f"{value} - 1": f"{FAILED} unsupported operand type(s) for -: `{kind}` and `int`; {CORRECT}"
        for value, kind in (
            ("hostvars", "dict"), ("groups", "dict"), ("hostvars.h2", "dict"), ("m", "dict"), ("l", "list"),
        )
    },
    "hostvars.nope": f"no `nope` in the hosts of the inventory; {NAME}",
    "groups.nope": f"no `nope` in the groups; {NAME}",
    "hostvars.h2.nope": f"no `nope` in the variables of that host; {NAME}",
    "hostvars.h2.l[3]": f"no `3` in the list; {NAME}",
    "hostvars.h2.m.y": f"no `y` in the mapping; {NAME}",
    "(1.5).x": f"no `x` in the number; {NAME}",
    "true.x": f"no `x` in the truth value; {NAME}",
    "none.x": f"no `x` in the empty value; {NAME}",
    "range(3).x": f"no `x` in range object; {NAME}",
    "[] | first": "undefined: No first item, sequence was empty; give a value for this case with `| default(…)`",
    "when.x": f"no `x` in the date; {NAME}",
    "nope.x": f"undefined variable `nope`; {DEFINE}",
    "nope._x": f"undefined variable `nope`; {DEFINE}",
    **{
        name: f"`{name}` {TASK}"
        for name in (
            "task", "checkpoint_dir", "cluster", "ps_hosts", "worker_hosts", "chief_address", "rank", "world_size",
        )
    },
    "a_password": f"undefined variable `nope`; {DEFINE}",
    "b_password": (
        "the template in `b_password` fails; correct the template, or write `!unsafe` before a password with braces"
    ),
    "c1": "variables refer to each other in a circle: c1 -> c2 -> c1; give one a plain value",
    "n0": "variables refer to each other over more than 32 steps; shorten the chain",
    "range": "the template renders to a function, which is not a value; call it with `()`",
    "m.keys()": "the template renders to a KeysView, which is not a value; correct it",
    "1 / 0": f"{FAILED} division by zero; {CORRECT}",
    "nope | mandatory('give one')": f"{FAILED} give one; {CORRECT}",
    "1 }": "not a valid template: unexpected `}`; check the braces and quotes",
    "$x": "not a valid template: unexpected char `$` at 3; check the braces and quotes",
    "[[m]] | combine": f"{FAILED} combine wants mappings; {CORRECT}",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS.items(), ids=ERRORS)
def test_an_error_is_one_line_with_its_fix(text: str, message: str, names: Variables) -> None:
    assert result(f"{{{{ {text} }}}}", names) == [message]


def test_a_template_cannot_include_another_file(names: Variables) -> None:
    for text in ("{% include 'most' %}", "{% extends 'most' %}", "{% import 'most' as x %}"):
        assert result(text, names) == [f"{FAILED} templates cannot include files; {CORRECT}"]


def test_a_lookup_returns_what_it_does_in_ansible(names: Variables) -> None:
    path = os.environ["PATH"]
    for text, value in (
        ("lookup('file', 'most') | length", 1_000_000),
        ("lookup('env', 'PATH ignored', 'NO_SUCH_NAME')", f"{path},"),
        ("lookup('env', 'NO_SUCH_NAME', default='d')", "d"),
        ("lookup('env', ' ')", ""),
        ("lookup('env', ['PATH', 'PATH'])", f"{path},{path}"),
        ("lookup('env', 'PATH', wantlist=true)", [path]),
        ("lookup('env', 'PATH', wantlist=false)", path),
        ("lookup('env')", ""),
        ("query('ansible.builtin.env', 'PATH')", [path]),
        ("lookup('vars', 'nope', default=3)", 3),
        ("lookup('vars', 'l', default=3)", [1]),
        ("lookup('vars', 'l', 'm')", [[1], {"x": 1}]),
        ("n1", 1),
        ("inventory_hostname, group_names", ["h1", ["worker"]]),
    ):
        assert result(f"{{{{ {text} }}}}", names) == value, text


TASK_SETTINGS = r"""
command: ['{{ " " }}', '{{ l }}', '{{ none }}', '{{ omit }}', "{{ 'a\nb' }}", "{{ 'a\rb' }}", "{{ 'a\0b' }}"]
flags: {s: 'x{{ ansible_password }}', a: '{{ none }}', b: '{{ m }}', c: "{{ 'x\ny' }}"}
env: {A: '{{ none }}', C: '{{ rank }}', D: '{{ checkpoint_dir }} {{ data_dir }} {{ world_size }} {{ task.index }}'}
"""


def test_an_argument_is_one_line_of_text(names: Variables) -> None:
    """An empty flag is one without a value."""
    node = parse(TASK_SETTINGS, "s.yml")
    assert isinstance(node, Mapping)
    faults = TemplateProblems()
    variables = add_task_variables(names, "lab", "worker/1", "/c", "/d", cluster_values={"world_size": 7, "l": []})
    rendered = plain(render_task_settings(node, variables, faults))
    one_line, single = "renders to several lines; render it to one line", "render it to a single value"
    rank = "set it in the groups that train, or write `{{ rank | default('') }}`"
    assert [str(problem).removeprefix("s.yml:") for problem in faults.problems] == [
        f"4:27: error: only a chief and workers have a `rank`, and worker/1 is neither; {rank}",
        "2:11: error: `command` renders to no program; for example `command: [python, linear.py]`",
        f"2:24: error: `command` renders to a list or a mapping; {single}",
        "2:35: error: `command` renders to nothing; render it to a text",
        *(f"2:{column}: error: `command` {one_line}" for column in (63, 79, 95)),
        (
            "3:12: error: `flags.s` is secret, and others on the host can read command lines; "
            "put it into `env`, or into a file on the host that `mounts` brings"
        ),
        f"3:59: error: `flags.b` renders to a list or a mapping; {single}",
        f"3:73: error: `flags.c` {one_line}",
        "4:10: error: `env.A` renders to nothing; render it to a text",
    ]
    assert rendered["env"]["D"] == "/c /d 7 1"
    assert (rendered["flags"]["a"], len(rendered["command"])) == (None, 6)


def test_what_is_left_out_leaves_no_trace(names: Variables) -> None:
    for text, value in (
        ("{{ {'a': omit, 'b': 1} }}", {"b": 1}), ("{{ [omit, 1] }}", [1]), ("a{{ none }}b", "ab"), ("{{ none }}", None),
        ("{{ 'a' }}\n\n", "a\n\n"), ("{{ 'a\n' }}\n\n", "a\n\n"), ("{{ l }}\n", [1]),
    ):  # fmt: skip
        assert result(text, names) == value, text
