"""The messages of filters, tests and names in templates, and their limits."""

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tfprov.errors import InvalidInput, Position
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.yaml_node import Mapping, plain
from tfprov.settings.resolve import resolve
from tfprov.templating.host_values import TemplateProblems, Variables, render
from tfprov.templating.limits import LimitExceeded, Limits, T
from tfprov.templating.lookups import OMIT
from tfprov.templating.magic_vars import HostVars, render_task_settings
from tfprov.templating.render import render_node, render_text
from tfprov.yamltext.load import parse

AT = Position("i.yml", 3, 5)
NAMES = "{l: [b, a, B], m: {x: 1, y: [1, 2]}, pairs: [{key: a, value: 1}, {key: b, value: 2}]}"


def render_value(text: str, names: str = NAMES, **special: Any) -> Any:
    nodes = parse(names, "v.yml")
    assert isinstance(nodes, Mapping)
    return plain(render_node(text, Variables(nodes, special), AT))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 'aa' | regex_replace('a', 'b', mandatory_count=3) }}", "`a` matches 2 times, not 3"),
        ("{{ 'ab' | regex_search('a', 'b') }}", "`b` is no group: write `\\\\1` or `\\\\g<name>`"),
        (
            "{{ 'a' | regex_escape('perl') }}",
            "`perl` is no kind of regular expression here: `python` or `posix_basic`",
        ),
        ("{{ 'a' | hash('sha0') }}", "no hash `sha0`: for example `sha256`"),
        (
            "{{ 'http://a' | urlsplit('user') }}",
            "a URL has no `user`: fragment, hostname, netloc, password, path, port, query, scheme, username",
        ),
        ("{{ l | dict2items }}", "dict2items wants a mapping"),
        ("{{ m | items2dict }}", "items2dict wants a list of mappings"),
        ("{{ l | items2dict }}", "items2dict wants a list of mappings"),
        ("{{ pairs | items2dict(key_name='name') }}", "items2dict: an entry lacks `name`"),
        (
            "{{ m | combine({}, list_merge='both') }}",
            "combine: no list_merge `both`: replace, keep, append, prepend, append_rp, prepend_rp",
        ),
        ("{{ l | combine }}", "combine wants mappings"),
        ("{{ 'large' | human_to_bytes }}", "`large` is not a size: for example `10M`"),
        ("{{ '10Mb' | human_to_bytes }}", "`Mb` is not a unit of bytes"),
        ("{{ '10MB' | human_to_bytes(isbits=true) }}", "`MB` is not a unit of bits"),
        ("{{ 10 | human_readable(unit='Q') }}", "`Q` is not a unit: one of B, K, M, G, T, P, E, Z, Y"),
        (
            "{{ '1' is version('2', '<', strict=true) }}",
            "`is version` compares loosely here: leave out `strict` and `version_type`",
        ),
        (
            "{{ '1' is version('2', '<', version_type='semver') }}",
            "`is version` compares loosely here: leave out `strict` and `version_type`",
        ),
        ("{{ '' is version('2') }}", "`is version` needs two versions, and one is empty"),
        ("{{ '1' is version('') }}", "`is version` needs two versions, and one is empty"),
        (
            "{{ '1' is version('2', 'newer') }}",
            "`newer` does not compare versions: use `==`, `!=`, `<`, `<=`, `>` or `>=`",
        ),
        ("{{ '1.x' is version('1.2', '<') }}", "`1.x` and `1.2` cannot be compared as versions"),
    ],
)
def test_an_invalid_argument_of_a_filter_or_test_is_reported(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        render_value(text)
    [problem] = raised.value.problems
    assert (problem.at, problem.what, problem.fix) == (AT, f"the template failed: {message}", "correct the expression")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ lookup('env', nowhere) }}", "undefined variable `nowhere`; define it under `vars:` or give it with `-e`"),
        ("{{ ansible_play_hosts }}", "`ansible_play_hosts` is Ansible's own, and not known here; write the value out"),
        ("{{ task.name }}", "`task` is not known here; use it in `command`, `flags` or `env`"),
        ("{{ groups.wroker }}", "no `wroker`"),
        ("{{ range(1000001) }}", "the template renders to a value of more than 1,000,000 characters or elements"),
        ("{{ range(10 ** 30) }}", "the template renders to a value of more than 1,000,000 characters or elements"),
        ("{{ range(10 ** 6) | list }}{{ range(10) | list }}", "more than 1,000,000 characters or elements"),
        (
            "{{ ('x' * 500001) | regex_replace('.{1,5000}', '\\g<0>\\g<0>') }}",
            "more than 1,000,000 characters or elements",
        ),
        ("{{ ('x' * 1000000 ~ 'y') | regex_search('y') }}", "more than 1,000,000 characters or elements"),
        ("{{ l | unique(case_sensitive=false, attribute='x.y') | list }}", "no `x` in"),
    ],
)
def test_an_error_is_reported_in_words(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        render_value(text, groups={"worker": ["h1"]})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ 'aa' | regex_replace('a', 'b', mandatory_count=2) }}", "bb"),
        ("{{ ('x' * 500000) | regex_replace('.{1,5000}', '\\g<0>\\g<0>') | length }}", 1_000_000),
        ("{{ ('x' * 999999 ~ 'y') | regex_search('y') }}", "y"),
        ("{{ 'a-b' | regex_search('(?P<one>a)-(b)', '\\g<one>', '\\2') }}", ["a", "b"]),
        ("{{ 'A.b' | regex_escape('posix_basic') }}", "A\\.b"),
        ("{{ pairs | items2dict }}", {"a": 1, "b": 2}),
        ("{{ [[1], [1], [2]] | unique | list }}", [[1], [2]]),
        ("{{ 'B' | human_to_bytes(default_unit='B') if false else '3B' | human_to_bytes }}", 3),
        (f"{{{{ {1024**8} | human_readable }}}}", "1.00 YB"),
        (f"{{{{ {1024**9} | human_readable }}}}", "1024.00 YB"),
        ("{{ 'ab' is regex('b', match_type='anything') }}", True),
        ("{{ 'ab' is regex('b', match_type='match') }}", False),
        ("{{ 5 is uri }}", False),
        ("{{ 'http://[x' is uri }}", False),
        ("{{ 'a:b' is uri(schemes=['a']) }}", True),
        ("{{ 'a:b' is uri(schemes=['b']) }}", False),
        ("{{ l | string }}", "['b', 'a', 'B']"),
        ("{{ m | string }}", "{'x': 1, 'y': [1, 2]}"),
        ("{{ m | tojson }}", '{"x": 1, "y": [1, 2]}'),
        ("{{ range(3) | map('string') }}", ["0", "1", "2"]),
        ("{{ range(999999) | list | length }}", 999_999),
        ("{{ omit | string }}", "omit"),
        ("{{ 'inf' | float }}", float("inf")),
        ("{{ [nope | default('-inf' | float), 1] | min }}", float("-inf")),
        ("{{ {'a': 'nan' | float}['a'] is nan }}", True),
        ("{{ 'x' | ansible.builtin.quote }}", "x"),
        ("{{ l | map('upper') | to_json }}", '["B", "A", "B"]'),
        ("{{ l | map('upper') | tojson }}", '["B", "A", "B"]'),
        ("{{ ['b64encode', 'ansible.builtin.quote', 'upper', 'nope'] | reject('filter') }}", ["nope"]),
        ("{{ ['superset', 'ansible.builtin.match', 'odd', 'nope'] | reject('test') }}", ["nope"]),
    ],
)
def test_a_filter_or_test_returns(text: str, value: Any) -> None:
    assert render_value(text) == value


ANSIBLES = (
    "ansible_check_mode", "ansible_config_file", "ansible_facts", "ansible_forks", "ansible_inventory_sources",
    "ansible_limit", "ansible_play_batch", "ansible_play_hosts", "ansible_play_hosts_all", "ansible_play_name",
    "ansible_playbook_python", "ansible_version", "item", "now", "play_hosts", "playbook_dir", "role_name", "role_path",
    "undef", "vars", "ansible_default_ipv4", "ansible_default_ipv6", "ansible_distribution_version",
    "ansible_processor_cores", "ansible_memtotal_mb", "ansible_hostname", "ansible_fqdn", "ansible_nodename",
    "ansible_os_family", "ansible_kernel",
)  # fmt: skip
MISSING_FILTERS = (
    "fileglob", "from_yaml_all", "ipaddr", "password_hash", "rekey_on_member", "strftime", "subelements", "to_datetime",
    "unvault", "vault", "win_basename", "win_dirname", "win_splitdrive", "comment", "json_query",
)  # fmt: skip


def error_of(text: str, names: str = NAMES, **special: Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        render_value(text, names, **special)
    (problem,) = raised.value.problems
    return f"{problem.what}; {problem.fix}"


@pytest.mark.parametrize("name", ANSIBLES)
def test_a_variable_that_only_ansible_sets_is_reported_as_such(name: str) -> None:
    message = f"`{name}` is Ansible's own, and not known here; write the value out, or give it with `-e`"
    assert error_of(f"{{{{ {name} }}}}") == message


@pytest.mark.parametrize("name", MISSING_FILTERS)
def test_an_unsupported_filter_of_ansible_is_reported_as_such(name: str) -> None:
    fix = "compute the value elsewhere, and give it with `-e` or as a variable"
    assert error_of(f"{{{{ l | {name} }}}}") == f"no filter `{name}` here; {fix}"
    assert error_of(f"{{{{ l | ansible.builtin.{name} }}}}") == f"no filter `ansible.builtin.{name}` here; {fix}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ m.q }}", "no `q` in the mapping; correct the name or the number"),
        ("{{ {'a': 1}.q }}", "no `q` in the mapping; correct the name or the number"),
        ("{{ groups.wroker }}", "no `wroker` in the mapping; correct the name or the number"),
        ("{{ l[7] }}", "no `7` in the list; correct the name or the number"),
        ("{{ [1][7] }}", "no `7` in the list; correct the name or the number"),
        ("{{ 'text'[7] }}", "no `7` in the text; correct the name or the number"),
        ("{{ (5).q }}", "no `q` in the number; correct the name or the number"),
        ("{{ lists }}", "undefined variable `lists`; define it under `vars:` or give it with `-e`"),
        ("{{ pair }}", "undefined variable `pair`; did you mean `pairs`?"),
        ("{{ l | jion(',') }}", "no filter named `jion`; did you mean `join`?"),
        ("{{ l | zzzz }}", "no filter named `zzzz`; use one of Jinja2's or Ansible's own filters"),
        ("{{ l is zzzz }}", "no test named `zzzz`; use one of Jinja2's or Ansible's own tests"),
        ("{{ l is definde }}", "no test named `definde`; did you mean `defined`?"),
        ("{{ 'x }}", "a quote in a template that is never closed; close it"),
        ("{{ l", "a template that is never closed; close `{{` with `}}`, and `{%` with `%}`"),
        ("{% if l %}", "a template that is never closed; close `{{` with `}}`, and `{%` with `%}`"),
        ("{# l", "a template that is never closed; close `{{` with `}}`, and `{%` with `%}`"),
        ("{{ l + }}", "not a valid template: unexpected `end of print statement`; check the braces and quotes"),
        ("{{ 9 | bool }}", "the template failed: `9` is neither true nor false; correct the expression"),
        ("{{ l.__class__ }}", ("the template sandbox forbids this: access to attribute `__class__` of `list` object "
         "is unsafe; use plain variables and filters")),
        ("{{ range(1000001) }}", ("the template renders to a value of more than 1,000,000 characters or elements; "
         "make it smaller")),
        ("{{ 'a: 1\nb: c: d' | from_yaml }}", ("the template failed: from_yaml: line 2: a second `: ` on one line; "
         "quote the value")),
        ("{{ ('f' * 4000) | int(base=16) }}", "the template renders to a number that is too large; make it smaller"),
        ("{{ {('f' * 4000) | int(base=16): 1} }}", "the template renders to a number that is too large; make it smaller"),
        ("{{ omit }}", "the template renders to `omit`, which is not a value; write `default('')`"),
        ("{{ [l] | unique(case_sensitive=false) }}", ("the template failed: unhashable type: `list`; "
         "correct the expression")),
        ("{{ l + 'x' }}", ("the template failed: unsupported operand type(s) for +: `list` and `str`; "
         "correct the expression")),
        ("{{ '%d' % l }}", "the template failed: %d format: a real number is required, not list; correct the expression"),
        ("{{ groups - 1 }}", ("the template failed: unsupported operand type(s) for -: `dict` and `int`; "
         "correct the expression")),
        ("{{ l.append }}", "no `append` in the list; correct the name or the number"),
        ("{{ l | join('', 'a', 1) }}", ("the template failed: join() takes from 2 to 4 positional arguments but 5 were "
                                        "given; correct the expression")),
        ("{{ 'x' | replace('a') }}", ("the template failed: replace() missing 1 required positional argument: `new`; "
                                      "correct the expression")),
        ("{{ l | random }}", ("the template failed: chance would make another plan of every run: "
         "give `seed=inventory_hostname`; correct the expression")),
    ],
)  # fmt: skip
def test_an_error_of_a_template_is_reported_in_full(text: str, message: str) -> None:
    assert error_of(text, groups={"worker": ["h1"]}) == message


@pytest.mark.parametrize("how", ["center", "ljust", "rjust", "zfill", "expandtabs"])
def test_no_text_is_padded_to_more_than_a_million_characters(how: str) -> None:
    assert len(render_value(f"{{{{ '\t'.{how}(1000000) }}}}")) == 1_000_000
    assert "more than 1,000,000 characters" in error_of(f"{{{{ '\t'.{how}(1000001) }}}}")


INVENTORY = """
all: {hosts: {10.0.0.256: }, vars: {tfprov: {cluster: lab, command: [python]}}}
ps: {hosts: {gpu1.example.com: }}
worker: {hosts: {10.0.0.7: , 10.0.0.x: }}
"""


@pytest.mark.parametrize(
    ("host", "short"),
    [("gpu1.example.com", "gpu1"), ("10.0.0.7", "10.0.0.7"), ("10.0.0.x", "10"), ("10.0.0.256", "10")],
)
def test_the_short_name_of_a_host_ends_at_its_first_dot_unless_it_is_an_address(host: str, short: str) -> None:
    inventory = read_groups(parse(INVENTORY, "i.yml"), "i.yml")
    resolve(inventory)
    names = HostVars(inventory)[host]
    assert plain(render_node("{{ inventory_hostname_short }}", names, AT)) == short
    here = Path.cwd()
    assert plain(render_node("{{ inventory_file, inventory_dir }}", names, AT)) == [f"{here}/i.yml", str(here)]
    assert plain(render_node("{{ 'gpu1.example.com' in hostvars, 'gpu2' in hostvars }}", names, AT)) == [True, False]
    assert plain(render_node("{{ groups.keys() | sort, hostvars | length }}", names, AT)) == [
        ["all", "ps", "ungrouped", "worker"],
        4,
    ]


def test_a_lookup_names_the_file_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="lookup of the file `picture`: not UTF-8 text"):
        render_value("{{ lookup('file', 'picture') }}", inventory_dir=str(tmp_path))
    (tmp_path / "text").write_text("  two  \n\n")
    look = "{{ lookup('file', 'text', %s) }}"
    assert render_value(look % "lstrip=true", inventory_dir=str(tmp_path)) == "two"
    assert render_value(look % "rstrip=false", inventory_dir=str(tmp_path)) == "  two  \n\n"


def test_renderings_in_several_threads_have_variables_of_their_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    begun, over = Event(), Event()
    values: list[str] = []

    def render(name: str, meanwhile: Callable[[], bool]) -> None:
        text = "{{ meanwhile() and lookup('file', 'name') }}"
        values.append(render_value(text, inventory_dir=str(tmp_path / name), meanwhile=meanwhile))

    def stay_in_the_middle() -> bool:
        begun.set()
        return over.wait(60)

    def begin_the_other() -> bool:
        other.start()
        return begun.wait(60)

    other = Thread(target=render, args=("two", stay_in_the_middle))
    render("one", begin_the_other)
    over.set()
    other.join()
    assert values == ["one", "two"]


def test_the_value_of_a_template_has_a_limited_depth_and_size() -> None:
    def nested(depth: int) -> list[Any]:
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        return value

    assert render_value("{{ deep }}", deep=nested(32)) == nested(32)
    assert render_value("{{ deep }}", deep={"a": nested(31)}) == {"a": nested(31)}
    for value in (nested(33), {"a": nested(32)}, [0] * 100_001):
        with pytest.raises(InvalidInput, match="a list or mapping that is too large or too deep; make it smaller"):
            render_value("{{ value }}", value=value)
    assert len(render_value("{{ large }}", large=[0] * 100_000)) == 100_000


def test_variables_record_the_names_that_are_looked_up() -> None:
    nodes = parse("{a: '{{ b }}', b: 1, c: '{{ gone | default(s) }}'}", "v.yml")
    assert isinstance(nodes, Mapping)
    variables = Variables(nodes, {"s": 2, "b": 3})
    assert (len(variables), list(variables), variables["a"]) == (4, ["a", "b", "c", "s"], 3)
    with variables.recorded() as outer:
        with variables.recorded() as names:
            assert (variables["a"], variables["c"], "d" in variables) == (3, 2, False)
        assert names == {"a", "b", "c", "gone", "s", "d"}
        assert outer == names
    with variables.recorded() as names:
        assert dict(variables) == {"a": 3, "b": 3, "c": 2, "s": 2}
    assert "*" in names
    same, other = Variables(nodes, {"s": 2, "b": 3}), Variables(nodes, {"s": 4})
    assert variables.agrees_with(same, ["a", "b", "c", "s", "gone"])
    assert not variables.agrees_with(same, ["a", "*"])
    assert (variables.agrees_with(other, ["a", "c"]), variables.agrees_with(other, ["a", "s"])) == (True, False)


def test_what_renders_to_omit_is_left_out_and_an_error_by_itself() -> None:
    variables, faults = Variables(Mapping(), {"omit": OMIT}), TemplateProblems()
    written = parse_mapping("{a: '{{ omit }}', b: ['{{ omit }}', 1]}")
    assert plain(render(written, variables, faults)) == {"b": [1]}
    assert (faults.problems, faults.at) == ([], set())
    alone = written.entries["a"]
    assert render(alone, variables, faults) is alone
    message = "v.yml:1:5: error: the template renders to `omit`, which is not a value; write `default('')`"
    assert ([str(problem) for problem in faults.problems], faults.at) == ([message], {alone.at})


def test_a_setting_of_a_task_renders_to_one_line_each() -> None:
    variables = Variables(parse_mapping("{e: ' ', n: null, l: [1], b: \"a\\nb\"}"), {"omit": OMIT})
    settings = parse_mapping(
        """\
command: ["{{ e }}", "{{ e }}", "{{ n }}", "{{ l }}", "{{ b }}", "{{ omit }}", x]
flags: {e: "{{ e }}", n: "{{ n }}", l: "{{ l }}", b: "{{ b }}", gone: "{{ omit }}"}
env: {E: "{{ e }}", N: "{{ n }}", L: "{{ l }}", B: "{{ b }}", plain: [1]}
other: "{{ l }}"
"""
    )
    faults = TemplateProblems()
    rendered = render_task_settings(settings, variables, faults)
    assert list(rendered) == ["command", "flags", "env"]
    lists, nothing = (
        "renders to a list or a mapping; render it to a single value",
        "renders to nothing; render it to a text",
    )
    lines = "renders to several lines; render it to one line"
    assert [str(problem).partition("error: ")[2] for problem in faults.problems] == [
        "`command` renders to no program; for example `command: [python, linear.py]`",
        f"`command` {nothing}",
        f"`command` {lists}",
        f"`command` {lines}",
        f"`flags.l` {lists}",
        f"`flags.b` {lines}",
        f"`env.N` {nothing}",
        f"`env.L` {lists}",
        f"`env.B` {lines}",
    ]


def parse_mapping(text: str) -> Mapping:
    node = parse(text, "v.yml")
    assert isinstance(node, Mapping)
    return node


def test_an_unsafe_value_that_a_template_reads_is_not_rendered() -> None:
    names = "{u: !unsafe '{{ nope }}', m: {v: !unsafe '{% x %}'}}"
    assert render_value("{{ u }} {{ m.v }}", names) == "{{ nope }} {% x %}"
    assert render_value("{{ m }}", names) == {"v": "{% x %}"}


def test_of_several_merged_mappings_the_last_one_wins() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: *a, <<: *b, z: 3}\nd: {<<: [*a, *b]}\n"
    merged = plain(parse(text, "v.yml"))
    assert (merged["c"], merged["d"]) == ({"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 1, "z": 2})


LARGEST = [
    ("{{ ('a' * 1000000) | length }}", "{{ ('a' * 1000001) | length }}"),
    ("{{ (1000000 * 'a') | length }}", "{{ (1000001 * 'a') | length }}"),
    ("{{ ([0] * 1000000) | length }}", "{{ ([0] * 1000001) | length }}"),
    ("{{ (2 ** 512) is number }}", "{{ (2 ** 513) is number }}"),
    ("{{ ((2 ** 511) * (2 ** 511)) is number }}", "{{ ((2 ** 512) * (2 ** 511)) is number }}"),
    ("{{ (('a' * 500000) + ('b' * 500000)) | length }}", "{{ (('a' * 500000) + ('b' * 500001)) | length }}"),
    ("{{ ('a' * 500000 ~ 'b' * 500000) | length }}", "{{ ('a' * 500000 ~ 'b' * 500001) | length }}"),
    ("{{ 'a' * 500000 }}{{ 'b' * 500000 }}", "{{ 'a' * 500000 }}{{ 'b' * 500001 }}"),
    ("x{{ [0] * 333332 }}", "x{{ [0] * 333333 }}x"),
    ("{{ ('%999999d' % 1) | length }}", "{{ ('%1000000d' % 1) | length }}"),
    ("{{ '{:{}}'.format(1, 999000) | length }}", "{{ '{:{}}'.format(1, 1000001) | length }}"),
    (
        "{{ ('a' * 1000) | replace('a', 'b' * 1000) | length }}",
        "{{ ('a' * 1000) | replace('a', 'b' * 1001) | length }}",
    ),
    ("{{ ('a' * 1000).replace('a', 'b' * 1000) | length }}", "{{ ('a' * 1000).replace('a', 'b' * 1001) | length }}"),
    (
        "{{ ('a' * 1000).translate({97: 'b' * 1000}) | length }}",
        "{{ ('a' * 1000).translate({97: 'b' * 1001}) | length }}",
    ),
    (
        "{{ ('\n' * 9999) | indent(100, true, true) | length }}",
        "{{ ('\n' * 10000) | indent(100, true, true) | length }}",
    ),
    ("{{ 1.5 | round(1000) }}", "{{ 1.5 | round(1001) }}"),
    ("{{ [1] | tojson(indent=100) | length }}", "{{ [1] | tojson(indent=101) | length }}"),
    ("{{ [1] | to_json(indent=100) | length }}", "{{ [1] | to_json(indent=101) | length }}"),
    ("{{ [[1]] | to_nice_yaml(indent=100) | length }}", "{{ [[1]] | to_nice_yaml(indent=101) | length }}"),
    (
        "{{ ['a' * 500000, 'b' * 500000] | sum(start='') | length }}",
        "{{ ['a' * 500000, 'b' * 500001] | sum(start='') | length }}",
    ),
    (
        "{{ ['a' * 500000, 'b' * 499998] | join('-') | length }}",
        "{{ ['a' * 500000, 'b' * 499999] | join('-') | length }}",
    ),
    ("{{ '-'.join(['a' * 500000, 'b' * 499998]) | length }}", "{{ '-'.join(['a' * 500000, 'b' * 499999]) | length }}"),
    ("{{ ([0] * 333333) | regex_search('x') == none }}", "{{ ([0] * 333334) | regex_search('x') == none }}"),
    ("{{ ('a' * 100000).rfind('a' * 10000) }}", "{{ ('a' * 100000).rfind('a' * 10001) }}"),
    ("{{ ([1] | batch(1000000) | list) | length }}", "{{ ([1] | batch(1000001) | list) | length }}"),
    ("{{ range(1000000) | length }}", "{{ range(1000001) | length }}"),
]
"""Templates whose values are as large as they may be, and the same with the next larger number."""


@pytest.mark.parametrize(("largest", "larger"), LARGEST, ids=range(len(LARGEST)))
def test_a_value_may_have_the_whole_limit_and_no_more(largest: str, larger: str) -> None:
    render_value(largest)
    assert re.search(r"more than 1,000,000 characters or elements|a text of that length from the end", error_of(larger))


class Exhausted(Limits):
    """Limits that every rendering exceeds."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def within(self, function: Callable[..., T], *arguments: Any) -> T:
        raise self.error


def test_a_rendering_beyond_its_limits_is_one_error_with_a_fix() -> None:
    variables = Variables(Mapping(), {})
    messages = set()
    for function, error in (
        (render_text, MemoryError()),
        (render_text, LimitExceeded("takes more than 1024 MiB of memory")),
        (render_node, LimitExceeded("takes more than 1024 MiB of memory")),
    ):
        with pytest.raises(InvalidInput) as raised:
            function("{{ 1 }}", variables, AT, Exhausted(error))
        messages.add(str(raised.value))

    def exhaust() -> None:
        raise MemoryError

    with pytest.raises(InvalidInput) as raised:
        render_value("{{ exhaust() }}", exhaust=exhaust)
    messages.add(str(raised.value))
    fix = "make it simpler, or give its value with `-e`"
    assert messages == {f"i.yml:3:5: error: the template takes more than 1024 MiB of memory; {fix}"}
