"""Templates have the value and the type that ansible-core's templar gives them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible_oracle import Ansible, enter_ansible_environment
from tests.support.template_rendering import HOST, render_text, types_of
from tfprov.errors import InvalidInput
from tfprov.model.inventory import Inventory
from tfprov.settings.load import load_inventory

pytestmark = pytest.mark.lane("parity")

INVENTORY = """
all:
  vars:
    n: 3
    f: 0.5
    t: true
    none:
    word: ünï
    digits: "12"
    list: [1, 2, 3]
    names: [b, a, C, a]
    mixed: [1, two, ~, 3.0, true]
    nested: [[1, [2]], [3, ~], 4]
    map: {a: 1, b: {c: 2, d: [x]}}
    other: {b: {c: 3, e: 4}, z: 0}
    people: [{name: ann, age: 30, tags: [x]}, {name: bob, age: 25, tags: [y, z]}]
    numbers: {1: one, 2: two}
    indirect: "{{ n }}"
    text_of_n: "n is {{ n }}"
    chain: "{{ indirect + 1 }}"
    lazy_list: ["{{ n }}", "{{ nowhere }}"]
    lazy_map: {good: "{{ n }}", bad: "{{ nowhere }}", self: "{{ lazy_map.good }}", list: [1, "{{ n }}"]}
    broken: "{{ nowhere }}"
    raw: !unsafe "{{ n }}"
    date: 2024-05-06
    path: /srv/data/file.tar.gz
    lines: "a\\nb\\n"
    version: 2.10.1
    url: https://user@host.example:8443/a/b?q=1#part
    size: 1536
    empty: ""
    nothing: []
    command: "--steps={{ n }} --dir={{ path | dirname }}"
    multi: |
      {% for host in groups['web'] %}
      {{ host }} {{ hostvars[host].port }}
      {% endfor %}
  children:
    web: {hosts: {"w[1:2].example.com": {port: "{{ 8000 + index }}"}}}
    db: {hosts: {10.0.0.9: {port: 5432, index: 9}}}
  hosts: {w1.example.com: {index: 1}, w2.example.com: {index: 2, peer: "{{ hostvars['w1.example.com'].port }}"}}
"""
TYPES = [
    "{{ n }}", "{{ f }}", "{{ t }}", "{{ none }}", "{{ word }}", "{{ digits }}", "{{ list }}", "{{ map }}",
    "{{ date }}", "{{ n }}{{ n }}", " {{ n }}", "{{ n }} ", "n={{ n }}", "{{ n }}\n", "{{ list }}{{ n }}",
    "{{ t }}{{ none }}", "{{ raw }}", "{{ indirect }}", "{{ text_of_n }}", "{{ chain }}", "{{ digits | int }}",
    "{{ digits + '3' }}", "{{ n + f }}", "{{ n / 2 }}", "{{ 7 // 2 }}", "{{ 7 % 4 }}", "{{ 2 ** 10 }}", "{{ -n }}",
    "{{ not t }}", "{{ n > 2 and t }}", "{{ n or 5 }}", "{{ none or 'x' }}", "{{ list + [4] }}", "{{ [0] + list }}",
    "{{ list + list }}", "{{ list[0] }}", "{{ list[-1] }}", "{{ list[1:] }}", "{{ map.a }}", "{{ map['b'].c }}",
    "{{ map.b.d[0] }}", "{{ map.get('q', 7) }}", "{{ map.keys() | list }}", "{{ map.items() | list | length }}",
    "{{ 'a' in map }}", "{{ 2 in list }}", "{{ list == [1, 2, 3] }}", "{{ map == {'a': 1} }}",
    "{{ 'x' if t else 'y' }}", "{{ {'k': n, 'l': list} }}", "{{ [n, word, map] }}", "{{ (1, 2) }}",
    "{{ 'a' ~ n ~ 'b' }}", "{{ '%s-%02d' | format(word, n) }}", "{{ '%s' % n }}", "{{ word | upper }}", "{{ true }}",
    "{{ None }}", "{{ [] }}", "{{ {} }}", "{{ '' }}", "{{ 'text' }}", "{{ 1.50 }}", "{{ 1_000 }}", "{{ '1' }}",
    "{{ [1, '1', 1.0, true] }}", "{% if t %}yes{% endif %}", "{% if not t %}yes{% endif %}",
    "{% if t %}{{ n }}{% endif %}", "{% set x = 5 %}{{ x }}", "{% for i in list %}{{ i }}{% endfor %}",
    "{% for i in list %}{{ i }},{% endfor %}", "{# nothing #}", "a{# b #}c", "{% raw %}{{ n }}{% endraw %}",
    "{{ '{{ n }}' }}", "{% if t %}\nx\n{% endif %}\ny", "a {%- if t %} b {%- endif %} c", "{{ multi }}",
    "{{ command }}", "{{ lazy_map.good }}", "{{ lazy_map.self }}", "{{ lazy_map.list }}", "{{ lazy_list[0] }}",
    "{{ lazy_list | length }}", "{{ lazy_map | length }}", "{{ lazy_map.keys() | list }}", "{{ numbers }}",
    "{{ numbers[1] }}", "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(n) }}", "{{ range(3) | list }}",
    "{{ dict(a=1, b=n) }}", "{{ list | map('string') }}", "{{ list | select('odd') }}", "{{ lines }}",
    "{{ n }}:{{ word }}", "{{ '\\n' }}", "plain", "{{ namespace(a=1).a }}", "{{ 'a,b'.split(',') }}",
    "{{ path.split('/')[-1] }}", "{{ word.startswith('ü') }}", "{{ 1e3 }}", "{{ list | sum == 6 }}",
    "{{ broken | default('x') }}", "{{ nowhere | default(list) }}", "{{ nowhere is defined }}",
    "{{ broken is defined }}", "{{ map.q is defined }}", "{{ map.q | default('d') }}", "{{ map.q.r | default('d') }}",
    "{{ nowhere.x['y'] | default('d') }}", "{{ 'a1b2' | regex_replace('([a-z])(\\d)', '\\2\\1') }}",
    "{% set x = 'a\\tb' %}{{ x }}", "{{ none }}{{ none }}", "a{{ none }}b", "{{ 'a' }}{{ none }}",
    "{{ empty | default('d', true) }}", "{{ none | default('d') }}", "{{ none | default('d', true) }}",
    "{{ n is number }}", "{{ [nowhere | default('a'), n] }}", "{{ lazy_map.bad | default('x') }}",
    "{{ {'a': omit, 'b': n} }}", "{{ [omit, n] }}",
]  # fmt: skip
NAMES = [
    "{{ inventory_hostname }}", "{{ inventory_hostname_short }}", "{{ group_names }}", "{{ groups['web'] }}",
    "{{ groups.db }}", "{{ groups['all'] | sort }}", "{{ groups.keys() | sort }}", "{{ groups | length }}",
    "{{ 'web' in group_names }}", "{{ inventory_dir }}", "{{ inventory_file }}", "{{ inventory_file | basename }}",
    "{{ hostvars['w1.example.com'].port }}", "{{ hostvars['10.0.0.9']['port'] }}",
    "{{ hostvars['w1.example.com'].inventory_hostname }}", "{{ hostvars['w1.example.com'].nowhere | default('d') }}",
    "{{ peer }}", "{{ hostvars['nobody'] is defined }}", "{{ hostvars | length }}", "{{ hostvars.keys() | sort }}",
    "{{ hostvars[inventory_hostname].index }}", "{{ groups['web'] | map('extract', hostvars, 'port') | list }}",
    "{{ groups['web'] | map('extract', hostvars) | map(attribute='index') | list }}",
    "{{ groups['web'].index(inventory_hostname) }}", "{{ groups['nothing'] | default([]) }}",
    "{{ hostvars['10.0.0.9'].inventory_hostname_short }}",
    "{{ groups['web'] | map('regex_replace', '^', 'http://') | join(',') }}", "{{ hostvars['10.0.0.9'].group_names }}",
    "{{ lookup('env', 'HOME') }}", "{{ lookup('env', 'NOT_SET_ANYWHERE') }}",
    "{{ lookup('env', 'NOT_SET_ANYWHERE', default='d') }}", "{{ lookup('env', 'HOME', 'LC_ALL') }}",
    "{{ query('env', 'HOME') }}", "{{ q('env', 'HOME', 'LC_ALL') }}", "{{ lookup('ansible.builtin.env', 'LC_ALL') }}",
    "{{ lookup('env', 'LC_ALL', wantlist=True) }}", "{{ lookup('vars', 'word') }}",
    "{{ lookup('vars', 'nowhere', default=5) }}", "{{ lookup('vars', 'li' ~ 'st') }}", "{{ lookup('vars', 'map') }}",
    "{{ lookup('file', inventory_file) | length > 100 }}",
]  # fmt: skip
ERRORS = [
    "{{ range(3) }}", "{{ range }}", "{{ 'a'.upper }}", "{{ nowhere }}", "{{ broken }}", "{{ lazy_map }}",
    "{{ lazy_list }}", "{{ map.q }}", "{{ list[9] }}", "{{ n.x }}", "{{ 1 + 'a' }}", "{{ 1 / 0 }}",
    "{{ n | no_such_filter }}", "{{ n is no_such_test }}", "{{", "{{ n", "{% if %}", "{% endfor %}", "{{ 'a }}",
    "x {{ nowhere }}", "{{ omit }}", "{{ hostvars['nobody'].x }}", "{{ groups['nobody'] }}",
    "{{ lookup('no_such_lookup', 'x') }}", "{{ lookup('file', '/no/such/file') }}", "{{ nowhere | mandatory }}",
    "{{ nowhere | mandatory('say it') }}", "{{ list | combine({'a': 1}) }}", "{{ 'x' | from_json }}",
    "{{ '[' | from_yaml }}", "{{ 'x' | regex_replace('(', '') }}", "{{ 'x' | human_to_bytes }}",
    "{{ 'x' | b64decode }}", "{{ n | hash('no') }}", "{{ lookup('vars', 'nowhere') }}", "{{ nowhere + 1 }}",
    "{{ nowhere.x }}", "{% for i in nowhere %}{% endfor %}", "{{ [nowhere] }}", "{{ {'a': nowhere} }}",
    "{{ n | pow('x') }}", "{{ -1 | root }}", "{{ 'a' | log }}", "{{ list | items2dict }}", "{{ list | dict2items }}",
    "{{ '10Mb' | human_to_bytes }}",
]  # fmt: skip


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(INVENTORY)
    return load_inventory(path)


@pytest.fixture(scope="module")
def answers(inventory: Inventory, ansible: Ansible) -> Iterator[dict[str, dict[str, Any]]]:
    texts = [*TYPES, *NAMES, *ERRORS]
    with pytest.MonkeyPatch.context() as patch:
        enter_ansible_environment(ansible.home, patch)
        computed = ansible.ask("rendered", sources=[inventory.path], host=HOST, texts=texts)
        yield dict(zip(texts, computed, strict=True))


@pytest.mark.parametrize("text", [*TYPES, *NAMES])
def test_a_template_computes_the_same(answers: dict[str, dict[str, Any]], inventory: Inventory, text: str) -> None:
    expected = answers[text]
    assert "value" in expected, expected
    computed = render_text(inventory, text)
    assert (computed, types_of(computed)) == (expected["value"], types_of(expected["value"]))


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_in_ansible_is_one_line_here(
    answers: dict[str, dict[str, Any]], inventory: Inventory, text: str
) -> None:
    assert "error" in answers[text]
    with pytest.raises(InvalidInput) as raised:
        render_text(inventory, text)
    assert len(str(raised.value).splitlines()) == 1
    assert raised.value.problems[0].at.line


def test_the_host_of_a_play_knows_the_variables_of_the_others(inventory: Inventory) -> None:
    assert render_text(inventory, "{{ hostvars['w2.example.com'].peer }}", "10.0.0.9") == 8001


def test_enough_expressions_are_compared() -> None:
    assert len({*TYPES, *NAMES, *ERRORS}) >= 180


def test_a_path_of_hosts_that_ends_where_it_began_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("g: {hosts: {a: {x: \"{{ hostvars['b'].x }}\"}, b: {x: \"{{ hostvars['a'].x }}\"}}}")
    with pytest.raises(InvalidInput, match="in a circle: x -> x -> x"):
        render_text(load_inventory(path), "{{ x }}", "a")
