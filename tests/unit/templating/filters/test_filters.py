"""Ansible's filters and tests return what they return in Ansible."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.ansible_oracle import Ansible, enter_ansible_environment
from tests.support.template_rendering import render_text, types_of
from tfprov.errors import InvalidInput
from tfprov.model.inventory import Inventory
from tfprov.settings.load import load_inventory
from tfprov.templating import jinja_tests
from tfprov.templating.filters import text as filters_text

pytestmark = pytest.mark.lane("parity")

INVENTORY = """
all:
  vars:
    l: [3, 1, 2, 3]
    m: {a: 1, b: {c: 2}}
    o: {b: {d: 3}, l: [1]}
    people: [{name: ann, age: 30}, {name: bob, age: 25}]
    deep: [[1, [2, [3]]], ~, [4]]
    word: Grüße an alle
    path: /srv/data/file.tar.gz
    names: [b, A, a, B]
    maps: [{x: 1}, {y: 2}, {x: 1}]
    ints: {1: one, 2: two}
    none:
    date: 2024-05-06
    lazy: [1, "{{ word }}"]
  hosts: {w2.example.com: {}}
"""
SETS = ("union", "intersect", "difference", "symmetric_difference")
"""Their answers come in another order in every run of Ansible."""

FILTERS = [
    "{{ 'yes' | bool }}", "{{ 'No' | bool }}", "{{ 1 | bool }}", "{{ 0 | bool }}", "{{ 'TRUE' | bool }}",
    "{{ 'off' | bool }}", "{{ true | bool }}", "{{ '1' | bool }}", "{{ 1.0 | bool }}", "{{ l | mandatory }}",
    "{{ true | ternary('a', 'b') }}", "{{ 0 | ternary('a', 'b') }}", "{{ none | ternary('a', 'b', 'c') }}",
    "{{ none | ternary('a', 'b') }}", "{{ l | ternary(l, m) }}", "{{ l | type_debug }}", "{{ m | type_debug }}",
    "{{ word | type_debug }}", "{{ 1.5 | type_debug }}", "{{ none | type_debug }}", "{{ 1 | extract(l) }}",
    "{{ 'b' | extract(m, 'c') }}", "{{ 'b' | extract(m, ['c']) }}", "{{ ['a', 'b'] | map('extract', m) | list }}",
    "{{ word | regex_replace('ü', 'ue') }}", "{{ word | regex_replace('(\\w+) an', '<\\1>') }}",
    "{{ word | regex_replace('GR', 'x', ignorecase=true) }}", "{{ 'a\nb' | regex_replace('^', '# ', multiline=True) }}",
    "{{ 'aaa' | regex_replace('a', 'b', count=2) }}", "{{ 12 | regex_replace('1', '2') }}",
    "{{ 'x1y2' | regex_replace('(?P<n>\\d)', '[\\g<n>]') }}", "{{ word | regex_search('a\\w+') }}",
    "{{ word | regex_search('nothing') }}", "{{ 'k=v' | regex_search('(\\w)=(\\w)', '\\1', '\\2') }}",
    "{{ 'k=v' | regex_search('(?P<k>\\w)=', '\\g<k>') }}", "{{ 'k=v' | regex_search('K', ignorecase=true) }}",
    "{{ 'a1 b22' | regex_findall('\\d+') }}", "{{ 'a1 b2' | regex_findall('(\\w)(\\d)') }}",
    "{{ 'a.b*c' | regex_escape }}", "{{ 'a.b*c' | regex_escape('posix_basic') }}", "{{ 'it is' | quote }}",
    "{{ none | quote }}", "{{ \"it's\" | quote }}", "{{ 'a' | quote }}", "{{ word | b64encode }}",
    "{{ word | b64encode | b64decode }}", "{{ 'a?>' | b64encode(urlsafe=true) }}", "{{ 5 | b64encode }}",
    "{{ word | hash }}", "{{ word | hash('sha256') }}", "{{ word | md5 }}", "{{ word | sha1 }}",
    "{{ word | checksum }}", "{{ 'x' | hash('sha512') }}", "{{ 'host1' | to_uuid }}",
    "{{ 'host1' | to_uuid(namespace='6ba7b810-9dad-11d1-80b4-00c04fd430c8') }}", "{{ 'a b  c' | split }}",
    "{{ 'a,b,c' | split(',') }}", "{{ 'a,b,c' | split(',', 1) }}", "{{ 'a%20b+c' | urldecode }}",
    "{{ 'http://u@h:80/p?q#f' | urlsplit('hostname') }}", "{{ 'http://u@h:80/p?q#f' | urlsplit }}",
    "{{ 'http://h/p' | urlsplit('port') }}", "{{ m | to_json }}", "{{ l | to_json }}", "{{ word | to_json }}",
    "{{ m | to_json(indent=2) }}", "{{ {'b': 1, 'a': [none, true]} | to_json(sort_keys=true) }}",
    "{{ m | to_nice_json }}", "{{ o | to_nice_json(indent=2) }}", "{{ lazy | to_json }}", "{{ ints | to_json }}",
    "{{ '{\"a\": [1, null, 2.5]}' | from_json }}", "{{ m | to_yaml }}", "{{ l | to_yaml }}", "{{ word | to_yaml }}",
    "{{ o | to_nice_yaml }}", "{{ people | to_nice_yaml(indent=2) }}",
    "{{ {'t': 'a\nb', 'y': 'yes', 'n': '012'} | to_yaml }}", "{{ lazy | to_nice_yaml }}", "{{ ints | to_yaml }}",
    "{{ date | to_yaml }}", "{{ 'a: [1, two]' | from_yaml }}", "{{ '' | from_yaml }}", "{{ none | from_yaml }}",
    "{{ '- yes\n- 012' | from_yaml }}", "{{ path | basename }}", "{{ path | dirname }}", "{{ path | splitext }}",
    "{{ path | splitext | first }}", "{{ '~/x' | expanduser }}", "{{ '$HOME/x' | expandvars }}",
    "{{ '/a/../b//c/.' | normpath }}", "{{ '/a/b/c' | relpath('/a') }}", "{{ '/proc/../tmp' | realpath }}",
    "{{ ['a', 'b', 'c.txt'] | path_join }}", "{{ ['/a', '/b'] | path_join }}", "{{ 'a' | path_join }}",
    "{{ ['/a/b/c', '/a/b/d'] | commonpath }}", "{{ 8 | log(2) }}", "{{ 100 | log(10) }}", "{{ 1 | log }}",
    "{{ 2 | pow(8) }}", "{{ 9 | root }}", "{{ 27 | root(3) }}", "{{ 2 | pow(0.5) }}", "{{ 0 | human_readable }}",
    "{{ 1536 | human_readable }}", "{{ 1 | human_readable }}", "{{ 10485760 | human_readable(unit='K') }}",
    "{{ 1048576 | human_readable(true) }}", "{{ 5000000000000 | human_readable }}", "{{ 1023 | human_readable }}",
    "{{ 1024 | human_readable(isbits=true, unit='M') }}", "{{ 2.5 | human_readable }}", "{{ '10M' | human_to_bytes }}",
    "{{ '2.5 GB' | human_to_bytes }}", "{{ '100' | human_to_bytes }}", "{{ '1B' | human_to_bytes }}",
    "{{ 3 | human_to_bytes(default_unit='K') }}", "{{ '1Kb' | human_to_bytes(isbits=true) }}",
    *(f"{{{{ {1024**power - 1} | human_readable }}}}" for power in range(1, 9)),
    *(f"{{{{ {1024**power} | human_readable }}}}" for power in range(1, 9)),
    *(f"{{{{ '2 {prefix}byte' | human_to_bytes }}}}" for prefix in ("", "mega", "giga", "tera", "peta")),
    *(f"{{{{ '2 {prefix}byte' | human_to_bytes }}}}" for prefix in ("exa", "zeta", "yotta")),
    *(f"{{{{ '2{letter}b' | human_to_bytes(isbits=true) }}}}" for letter in "KMGTPEZY"),
    *(f"{{{{ '2 {prefix}bit' | human_to_bytes(isbits=true) }}}}" for prefix in ("", "kilo", "giga", "yotta")),
    "{{ 8 | log(2) }}", "{{ 1000 | log(10) }}", "{{ 2.5 | log }}", "{{ '2.7' | human_to_bytes }}",
    "{{ '.5K' | human_to_bytes }}",
    "{{ '1 kilobyte' | human_to_bytes }}", "{{ '3b' | human_to_bytes }}", "{{ l | unique }}", "{{ names | unique }}",
    "{{ names | unique(case_sensitive=true) }}", "{{ maps | unique }}", "{{ people | unique(attribute='name') }}",
    "{{ l | union([4, 1]) }}", "{{ l | intersect([3, 2, 9]) }}", "{{ l | difference([3]) }}",
    "{{ l | symmetric_difference([3, 4]) }}", "{{ maps | union([{'z': 1}]) }}", "{{ maps | intersect([{'x': 1}]) }}",
    "{{ maps | difference([{'x': 1}]) }}", "{{ maps | symmetric_difference([{'x': 1}, 5]) }}",
    "{{ [1, true, 1.0] | union([]) | length }}", "{{ deep | flatten }}", "{{ deep | flatten(levels=1) }}",
    "{{ deep | flatten(skip_nulls=false) }}", "{{ ['None', 'a'] | flatten }}", "{{ m | combine(o) }}",
    "{{ m | combine(o, recursive=true) }}", "{{ m | combine({'a': 9}, {'z': 8}) }}", "{{ [m, o] | combine }}",
    "{{ [] | combine }}", "{{ o | combine({'l': [2, 1]}, list_merge='append') }}",
    "{{ o | combine({'l': [2, 1]}, list_merge='prepend') }}", "{{ o | combine({'l': [2, 1]}, list_merge='keep') }}",
    "{{ o | combine({'l': [2, 1]}, list_merge='append_rp') }}",
    "{{ o | combine({'l': [2, 1]}, list_merge='prepend_rp') }}",
    "{{ {'a': {'l': [1]}} | combine({'a': {'l': [2]}}, {'a': {'l': [3]}}, recursive=True, list_merge='append') }}",
    "{{ m | combine({}) }}", "{{ {} | combine(m) }}", "{{ m | dict2items }}",
    "{{ m | dict2items(key_name='k', value_name='v') }}", "{{ ints | dict2items }}",
    "{{ m | dict2items | items2dict }}", "{{ people | items2dict(key_name='name', value_name='age') }}",
    "{{ l | zip(names) }}", "{{ l | zip(names) | list }}", "{{ l | zip([1], [2]) | list }}",
    "{{ l | zip_longest(names, [1], fillvalue='-') | list }}", "{{ [1, 2] | product(['a']) | list }}",
    "{{ [1, 2] | permutations | list }}", "{{ [1, 2, 3] | permutations(2) | list | length }}",
    "{{ [1, 2, 3] | combinations(2) | list }}", "{{ l | min }}", "{{ l | max }}", "{{ people | max(attribute='age') }}",
    "{{ dict(l | zip(names)) }}", "{{ 100 | random(seed='w1') }}", "{{ 59 | random(seed=inventory_hostname) }}",
    "{{ names | random(seed=1) }}", "{{ 10 | random(5, 2, seed='x') }}", "{{ l | shuffle(seed='w1') }}",
    "{{ range(9) | shuffle(seed=inventory_hostname) }}", "{{ l | ansible.builtin.flatten }}",
    "{{ m | ansible.builtin.combine(o) }}", "{{ people | map(attribute='name') | map('upper') | list }}",
    "{{ people | selectattr('age', '>', 26) | list }}", "{{ people | rejectattr('name', 'match', 'a') | list }}",
    "{{ names | select('match', '[ab]') | list }}", "{{ names | map('regex_replace', '^', 'x-') | list }}",
    "{{ people | groupby('age') }}", "{{ m | dictsort }}", "{{ l | sort | first }}",
    "{{ people | sum(attribute='age') }}", "{{ m.items() | map('first') | list }}",
    "{{ people | items2dict('name', 'age') | dict2items | length }}", "{{ 'a' | replace('a', 'b') }}",
    "{{ ['x'] | map('ternary', 1, 2) | list }}", "{{ l | join('-') }}", "{{ m | to_json | from_json == m }}",
    "{{ ' a ' | trim }}", "{{ 3.7 | int }}", "{{ 'x' | int(5) }}", "{{ 3.14159 | round(2) }}", "{{ -3 | abs }}",
    "{{ [l, [9]] | sum(start=[]) }}", "{{ lazy + [3] }}",
]  # fmt: skip
TESTS = [
    "{{ word is match('Gr') }}", "{{ word is match('an') }}", "{{ word is search('an') }}",
    "{{ word is search('AN', ignorecase=true) }}", "{{ word is regex('^G.*e$') }}",
    "{{ 'a\nb' is search('^b', multiline=true) }}", "{{ word is regex('an', match_type='match') }}",
    "{{ '1.10' is version('1.9', '>') }}", "{{ '1.10' is version('1.10') }}", "{{ '2.0.1' is version('2.0', 'ge') }}",
    "{{ '1.0' is version('1.0.0', '<') }}", "{{ '1.0a1' is version('1.0a2', 'lt') }}",
    "{{ '24.04' is version_compare('22.04', '>=') }}", "{{ 3 is version('10', '<') }}",
    "{{ '1.2-3' is version('1.2-10', '<') }}", "{{ '1.0' is version('2', '!=') }}", "{{ '8' is version('8', '<>') }}",
    "{{ 'v1.2' is version('v1.3', '<=') }}", "{{ [1] is subset(l) }}", "{{ l is superset([1, 2]) }}",
    "{{ l is contains(3) }}", "{{ 'abc' is contains('b') }}", "{{ [true, 1] is all }}", "{{ [0, 1] is any }}",
    "{{ [] is any }}", "{{ 'no' is truthy }}", "{{ 'no' is truthy(convert_bool=true) }}", "{{ '' is falsy }}",
    "{{ 'yes' is falsy(convert_bool=True) }}", "{{ 'maybe' is truthy(convert_bool=True) }}", "{{ path is abs }}",
    "{{ 'a/b' is abs }}", "{{ 'http://x/y' is url }}", "{{ 'x/y' is url }}", "{{ 'file:///x' is url }}",
    "{{ 'http://x' is url(schemes=['https']) }}", "{{ 'urn:x' is uri }}", "{{ 1.0 is nan }}",
    "{{ l is issubset([1, 2, 3]) }}", "{{ l is sequence }}", "{{ m is mapping }}", "{{ l is iterable }}",
    "{{ word is string }}", "{{ none is none }}", "{{ 3 is odd }}", "{{ l is not mapping }}",
    "{{ people | selectattr('name', 'contains', 'n') | list | length }}", "{{ 'a' is in ['a'] }}",
    "{{ 3 is divisibleby(3) }}",
]  # fmt: skip


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(INVENTORY)
    return load_inventory(path)


@pytest.fixture(scope="module")
def answers(inventory: Inventory, ansible: Ansible) -> Iterator[dict[str, dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        enter_ansible_environment(ansible.home, patch)
        texts = [*FILTERS, *TESTS]
        computed = ansible.ask("rendered", sources=[inventory.path], host="w2.example.com", texts=texts)
        yield dict(zip(texts, computed, strict=True)) | {"plugins": ansible.ask("plugins")}


@pytest.mark.parametrize("text", [*FILTERS, *TESTS])
def test_the_answer_is_the_same(answers: dict[str, dict[str, Any]], inventory: Inventory, text: str) -> None:
    assert "value" in answers[text], answers[text]
    expected, computed = answers[text]["value"], render_text(inventory, text)
    if any(name in text for name in SETS):
        expected, computed = _sorted(expected), _sorted(computed)
    assert (computed, types_of(computed)) == (expected, types_of(expected))


def _sorted(value: Any) -> Any:
    return sorted(value, key=json.dumps) if isinstance(value, list) else value


def test_every_filter_is_ansibles_and_compared(answers: dict[str, Any]) -> None:
    known = answers["plugins"]
    assert set(filters_text.TABLE) <= set(known["filters"])
    assert set(jinja_tests.TABLE) <= set(known["tests"])
    texts = " ".join(FILTERS)
    assert [name for name in filters_text.TABLE if f"| {name}" not in texts and f"'{name}'" not in texts] == []
    aliases = {"is_abs", "isnan", "issuperset"}
    assert {name for name in jinja_tests.TABLE if f" is {name}" not in " ".join(TESTS)} <= aliases


def test_what_is_not_here_is_said_to_be_not_here(answers: dict[str, Any], inventory: Inventory) -> None:
    missing = set(answers["plugins"]["filters"]) - set(filters_text.TABLE) - {"d", "default", "groupby", "map"}
    missing -= {"reject", "rejectattr", "select", "selectattr"}
    assert missing <= set(filters_text.UNSUPPORTED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 'maybe' | bool }}", "`maybe` is neither true nor false"),
        ("{{ l | flaten }}", "no filter named `flaten`; did you mean `flatten`?"),
        ("{{ 'x' | password_hash }}", "no filter `password_hash` here"),
        ("{{ l is mach('x') }}", "no test named `mach`; did you mean `match`?"),
        ("{{ 9 | random }}", "give `seed=inventory_hostname`"),
        ("{{ l | shuffle }}", "give `seed=inventory_hostname`"),
        ("{{ 'a' is version('1') }}", "cannot be compared as versions"),
        ("{{ range(3000) | product(range(3000)) | list | length }}", "more than 1,000,000"),
        ("{{ range(12) | permutations | list | length }}", "more than 1,000,000"),
        ("{{ ('x' * 1000000) | regex_replace('x', 'y' * 1000) }}", "more than 1,000,000"),
        ("{{ ('x' * 1000000) | replace('x', 'y' * 1000) }}", "more than 1,000,000"),
        ("{{ ('x' * 1000000).replace('x', 'y' * 1000) }}", "more than 1,000,000"),
        ("{{ (['x' * 1000] * 10000) | join }}", "more than 1,000,000"),
        ("{{ ('x' * 1000).join(['y'] * 10000) }}", "more than 1,000,000"),
        ("{{ ('x' * 900000) ~ ('x' * 900000) }}", "more than 1,000,000"),
        ("{{ ('x' * 900000 + 'x' * 900000) | length }}", "more than 1,000,000"),
        ("{{ ([1] * 900000 + [1] * 900000) | length }}", "more than 1,000,000"),
        ("{{ l | to_json(indent=10000000) }}", "more than 1,000,000"),
        ("{{ lookup('pipe', 'id') }}", "no lookup `pipe` here: there are `env`, `file`, `vars`"),
        ("{{ lookup('url', 'http://x') }}", "no lookup `url` here"),
    ],
)
def test_what_is_otherwise_here_is_told(inventory: Inventory, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        render_text(inventory, text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
