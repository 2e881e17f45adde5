"""Jinja2 in an inventory: types are kept, values are rendered lazily, and the sandbox holds."""

import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_output import SMALLEST, run_command
from tfprov.errors import InvalidInput, Position, mask_secrets
from tfprov.model.yaml_node import EncryptedValue, Mapping, Scalar, plain
from tfprov.settings.load import load_inventory
from tfprov.templating.host_values import TemplateProblems, Variables, is_secret, render
from tfprov.templating.limits import Limits
from tfprov.templating.magic_vars import HostVars, render_task_settings
from tfprov.templating.render import render_node, render_text
from tfprov.yamltext.load import parse

AT = Position("inventory.yml", 7, 3)


def variables(text: str = "{}", **special: Any) -> Variables:
    nodes = parse(text, "vars.yml")
    assert isinstance(nodes, Mapping)
    return Variables(nodes, special)


def render_value(text: str, names: str = "{}", **special: Any) -> Any:
    return plain(render_node(text, variables(names, **special), AT))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ base + 1 }}", 2223),
        ("{{ base }}", 2222),
        ("{{ ratio * 2 }}", 0.5),
        ("{{ not on }}", False),
        ("{{ hosts }}", ["a", "b"]),
        ("{{ hosts | length }}", 2),
        ("{{ {'a': base} }}", {"a": 2222}),
        ("{{ none }}", None),
        ("{{ word }}", "2222"),
        ("{{ base }}{{ base }}", "22222222"),
        ("port {{ base }}", "port 2222"),
        (" {{ base }}", " 2222"),
        ("{% if on %}yes{% else %}no{% endif %}", "yes"),
        ("{{ hosts | join(',') }}", "a,b"),
        ("{{ missing | default('x') }}", "x"),
        ("no template", "no template"),
    ],
)
def test_a_value_that_is_one_expression_keeps_its_type(text: str, value: Any) -> None:
    names = "{base: 2222, ratio: 0.25, on: true, hosts: [a, b], none: null, word: '2222'}"
    result = render_value(text, names)
    assert result == value
    assert type(result) is type(value)


def test_text_that_looks_like_code_stays_text() -> None:
    assert render_value("{{ text }}", "{text: '[1, 2]'}") == "[1, 2]"
    assert render_value("{{ text }}", "{text: 'None'}") == "None"


def test_variables_may_refer_to_others_that_come_later() -> None:
    assert render_value("{{ a }}", "{a: '{{ b }}/x', b: '{{ c }}', c: /data}") == "/data/x"


def test_an_unused_variable_is_not_rendered() -> None:
    assert render_value("{{ good }}", "{good: 1, bad: '{{ nowhere }}', worse: '{{'}") == 1


def test_a_special_value_is_no_template_and_wins() -> None:
    assert render_value("{{ host }}", "{host: from a file}", host="{{ x }}") == "{{ x }}"


def test_a_result_is_not_rendered_again() -> None:
    assert render_value("{{ '{{ secret }}' }}", "{secret: 1}") == "{{ secret }}"
    assert render_value("{{ a }}", "{a: !unsafe '{{ secret }}', secret: 1}") == "{{ secret }}"


def test_further_special_values_keep_the_others() -> None:
    base = variables("{a: '{{ task }}'}")
    assert render_text("{{ a }}", base.with_variables(task="ps/0"), AT) == "ps/0"
    assert render_text("{{ a }}", base.with_variables(task="ps/1"), AT) == "ps/1"


def error_of(text: str, names: str = "{}") -> str:
    with pytest.raises(InvalidInput) as raised:
        render_value(text, names)
    assert len(raised.value.problems) == 1
    return str(raised.value)


def test_an_undefined_variable_is_reported_by_name_and_line() -> None:
    message = error_of("{{ nowhere }}")
    assert message.startswith("inventory.yml:7:3: error: ")
    assert "nowhere" in message


def test_an_error_in_a_variable_is_reported_at_the_variable() -> None:
    assert error_of("{{ a }}", "a: '{{ nowhere }}'").startswith("vars.yml:1:4: error: ")


def test_a_circle_is_an_error_that_lists_its_variables() -> None:
    assert "a -> b -> a" in error_of("{{ a }}", "{a: '{{ b }}', b: '{{ a }}'}")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ [].__class__.__mro__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ hosts.append(1) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ lipsum.__globals__ }}",
    ],
)
def test_nothing_gets_out_of_the_sandbox(text: str) -> None:
    error_of(text, "{hosts: [a]}")


@pytest.mark.parametrize(
    "text", ["{{", "{{ a", "{% if %}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ none.x }}", "{{ [][5] }}"]
)
def test_any_error_in_a_template_is_one_problem_at_its_line(text: str) -> None:
    assert error_of(text).startswith("inventory.yml:7:3: error: ")


@pytest.mark.parametrize("text", ["{{ 'x' * 100000000 }}", "{{ range(100000000) | list }}", "{{ 9 ** 999999999 }}"])
def test_a_template_cannot_eat_the_memory(text: str) -> None:
    error_of(text)


def test_one_entry_of_a_mapping_may_refer_to_another() -> None:
    names = "{paths: {root: /data, train: '{{ paths.root }}/train', bad: '{{ nowhere }}'}}"
    assert render_value("{{ paths.train }}", names) == "/data/train"
    assert "undefined variable `nowhere`" in error_of("{{ paths }}", names)


def test_a_circle_in_a_mapping_is_reported_with_its_paths() -> None:
    assert "m.a -> m.b -> m.a" in error_of("{{ m.a }}", "{m: {a: '{{ m.b }}', b: '{{ m.a }}'}}")


def test_omit_leaves_an_entry_out() -> None:
    node = parse("{env: {A: '{{ omit }}', B: '{{ x | default(omit) }}', C: c}, list: [a, '{{ omit }}', b]}", "vars.yml")
    assert plain(render(node, variables())) == {"env": {"C": "c"}, "list": ["a", "b"]}
    assert "renders to `omit`" in error_of("{{ omit }}")


def test_a_setting_of_a_task_may_omit_entries() -> None:
    node = parse(
        "{command: [python, '{{ omit }}', x, '{{ [] }}'], env: {A: '{{ omit }}', B: '{{ none }}'}}", "vars.yml"
    )
    assert isinstance(node, Mapping)
    faults = TemplateProblems()
    result = plain(render_task_settings(node, variables(), faults))
    assert result == {"command": ["python", "x", []], "env": {"B": None}}
    assert [error_of.what for error_of in faults.problems] == [
        "`command` renders to a list or a mapping",
        "`env.B` renders to nothing",
    ]


def test_an_attribute_of_an_undefined_value_is_undefined() -> None:
    assert render_value("{{ a.b['c'] | default('x') }}", "{a: '{{ nowhere.d }}'}") == "x"
    assert "undefined variable `nowhere`" in error_of("{{ nowhere.a.b }}")
    error_of("{{ nowhere.__class__ }}")


@pytest.mark.parametrize("name", ["ansible_facts", "ansible_version", "playbook_dir", "ansible_default_ipv4", "vars"])
def test_a_name_of_ansibles_own_is_reported_as_such(name: str) -> None:
    assert f"`{name}` is Ansible's own, and not known here" in error_of(f"{{{{ {name} }}}}")


def test_a_file_is_looked_up_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA me\n")
    assert render_value("{{ lookup('file', 'key.pub') }}", inventory_dir=str(tmp_path)) == "ssh-ed25519 AAAA me"
    with pytest.raises(InvalidInput, match="lookup of the file `no/such`: no such file"):
        render_value("{{ lookup('file', 'no/such') }}", inventory_dir=str(tmp_path))


def test_a_file_outside_of_the_inventorys_directory_is_not_looked_up(tmp_path: Path) -> None:
    home, allowed = tmp_path / "inventory", tmp_path / "allowed"
    for folder in (home, allowed, tmp_path / "inventory-2"):
        folder.mkdir()
        (folder / "secret").write_text("s3cret")
    (home / "link").symlink_to(tmp_path / "inventory-2" / "secret")
    (home / "folder").symlink_to(tmp_path / "inventory-2")
    (home / "inside").symlink_to(home / "secret")
    os.mkfifo(home / "fifo")
    outside = "it is not below the directory of the inventory; allow its directory with `--lookup-dir`"
    cases = {
        "{{ lookup('file', 'secret') }}": "s3cret",
        "{{ lookup('file', 'inside') }}": "s3cret",
        "{{ lookup('file', '../inventory/secret') }}": "s3cret",
        "{{ lookup('file', '../allowed/secret') }}": "s3cret",
        "{{ lookup('file', '../inventory-2/secret') }}": outside,
        "{{ lookup('file', 'link') }}": outside,
        "{{ lookup('file', 'folder/secret') }}": outside,
        "{{ lookup('file', '/etc/hostname') }}": outside,
        "{{ query('file', '~/.ssh/id_rsa') }}": outside,
        "{% set inventory_dir = '/etc' %}{{ lookup('file', 'hostname') }}": "no such file",
        "{% block b %}{% set inventory_dir = '/' %}{{ lookup('file', '/etc/hostname') }}{% endblock %}": outside,
        "{{ lookup('file', 'fifo') }}": "not a regular file",
        "{{ lookup('file', 'folder') }}": outside,
        "{{ lookup('file', '.') }}": "is a directory",
    }
    names = Variables(Mapping(), {"inventory_dir": str(home)}, lookup_dirs=(str(allowed),))
    wrong = {}
    for text, expected in cases.items():
        try:
            seen = plain(render_node(text, names, AT))
        except InvalidInput as error:
            seen = str(error)
        if expected not in seen or (expected != "s3cret" and "s3cret" in seen):
            wrong[text] = seen
    assert wrong == {}


def test_the_command_line_allows_more_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for folder in ("inventory", "keys"):
        Path(folder).mkdir()
    Path("keys/name").write_text("lab")
    text = SMALLEST.replace("cluster: linear", "cluster: \"{{ lookup('file', '../keys/name') }}\"")
    Path("inventory/i.yml").write_text(text)
    words = ["inventory", "explain", "localhost", "tfprov.cluster", "-i", "inventory/i.yml"]
    refused = run_command(capsys, "plan", "-i", "inventory/i.yml")
    assert refused.code == 2
    assert refused.lines[0].startswith("inventory/i.yml:3:23: error: ")
    assert "--lookup-dir" in refused.lines[0]
    assert run_command(capsys, "plan", "-i", "inventory/i.yml", "--lookup-dir", "keys").code == 0
    assert "lab" in run_command(capsys, *words, "--lookup-dir", "keys").out


def test_every_rendering_ends_within_its_limits() -> None:
    cases = {
        "{{ ('{0:999999}' * 10000).format(1) }}": "1,000,000",
        "{{ ('%999999d' * 10000) % 1 }}": "1,000,000",
        "{{ ('{0}' * 30000).format('a' * 1000000) | length }}": "1,000,000",
        "{{ ('%(a)s' * 100000) % {'a': 'b' * 100000} }}": "1,000,000",
        "{{ ('{0:{1}}' * 1000).format(1, 900000) }}": "1,000,000",
        "{{ ('%*d' * 1000) % ((900000, 1) * 1000) }}": "1,000,000",
        "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}": "1,000,000",
        "{{ ('\t' * 1000000).expandtabs(1000000) }}": "1,000,000",
        "{{ ('a\n' * 400000) | indent(900000) }}": "1,000,000",
        "{{ ('a\n' * 400000) | indent('b' * 900000) }}": "1,000,000",
        "{{ range(1000) | permutations(1000) | list | length }}": "1,000,000",
        "{{ [1, 2] | product(repeat=10000000000) | list }}": "1,000,000",
        "{{ range(40) | combinations(20) | list }}": "1,000,000",
        "{{ ([range(90000) | list] * 1000) | sum(start=[]) | length }}": "1,000,000",
        "{{ 5.5 | round(100000000, 'ceil') }}": "1,000,000",
        "{{ range(90000) | list | tojson(indent=900000) }}": "1,000,000",
        "{{ [1] | to_nice_json(indent=101) }}": "1,000,000",
        "{{ [1] | to_nice_yaml(indent=101, width=80) }}": "1,000,000",
        **{
            f"{{{{ ('a' * 500000).{method}('b' ~ 'a' * 250000) }}}}": "looking for a text of that length from the end"
            for method in ("rfind", "rindex", "rsplit", "rpartition")
        },
        "{{ ('a' * 40 ~ 'b') is match('(a+)+$') }}": "takes more than 0.1 seconds",
        "{{ ('a' * 40 ~ 'b') | regex_replace('(a|a)*$', 'x') }}": "takes more than 0.1 seconds",
        "{{ ('a' * 40 ~ 'b') | default(('a' * 40 ~ 'b') | regex_findall('(a+)+$'), true) | regex_search('(a+)+$') }}": (
            "takes more than 0.1 seconds"
        ),
        "{% set l = range(90000) | list %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}": "takes more than 0.1",
        "{{ ('a ' * 500000) | wordwrap(1, true, 'b' * 1000000) | length }}": "takes more than",
        "{{ ('\"' * 100) " + "| tojson" * 60 + " }}": "takes more than",
    }
    short, long, wrong = Limits(seconds=0.1, memory=64 << 20), Limits(seconds=5, memory=64 << 20), {}
    before = resource.getrlimit(resource.RLIMIT_AS)
    for text, expected in cases.items():
        began = time.process_time()
        with pytest.raises(InvalidInput) as caught:
            render_node(text, {}, AT, short if "takes more than" in expected else long)
        took = time.process_time() - began
        if expected not in str(caught.value) or took > 4 or not str(caught.value).startswith(str(AT)):
            wrong[text] = (took, str(caught.value))
    assert wrong == {}
    assert resource.getrlimit(resource.RLIMIT_AS) == before, "the limit is taken back"


def test_formats_of_ordinary_length_are_no_bombs() -> None:
    cases = {
        "{{ ('{:>10} {:>10}\n' * 100).format(*range(200)) | length }}": 2200,
        "{{ (('%s,' * 50) % (('a' * 1000,) * 50)) | length }}": 50050,
        "{{ 'a\tb'.expandtabs(4) }}": "a   b",
        "{{ [[1], [2]] | sum(start=[]) }}": [1, 2],
        "{{ [{'a': [1]}, {'a': [2]}] | sum('a', []) }}": [1, 2],
        "{{ [1, 2] | product([3, 4]) | list | length }}": 4,
        "{{ 2.567 | round(1) }}": 2.6,
        "{{ 'abc'.translate({97: 'x'}) }}": "xbc",
    }
    assert {text: render_value(text) for text in cases if render_value(text) != cases[text]} == {}


def test_hosts_share_the_values_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {vars: {port: '{{ 8000 + index }}', index: 1}, children: {g: {hosts: {'h[1:50]': }}}}")
    inventory = load_inventory(path)
    hostvars = HostVars(inventory)
    seen = [hostvars.bind(host, inventory.variables(host)) for host in inventory.hosts]
    assert len({id(one["groups"]["g"]) for one in seen}) == 1
    assert len({id(one["hostvars"]["h1"]) for one in seen}) == 1
    assert render_text("{{ groups.g | map('extract', hostvars, 'port') | sum }}", seen[7], AT) == 50 * 8001


def test_what_a_template_reads_of_a_secret_variable_is_masked_in_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "token-77c1e2ab")
    monkeypatch.setenv("A_PLACE", "place-77c1e2ab")
    assert render_value("{{ lookup('env', 'A_TOKEN', 'A_PLACE') }}") == "token-77c1e2ab,place-77c1e2ab"
    assert mask_secrets("token-77c1e2ab place-77c1e2ab") == "****** place-77c1e2ab"


def test_what_another_host_does_not_have_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {vars: {l: [1], m: {a: 1}}, children: {g: {hosts: {a: , b: }}}}")
    inventory = load_inventory(path)
    variables = HostVars(inventory).bind("a", inventory.variables("a"))
    places = {
        "hostvars.c": "the hosts of the inventory",
        "hostvars.b.nosuch": "the variables of that host",
        "groups.h": "the groups",
        "l.nosuch": "the list",
        "m.nosuch": "the mapping",
        "hostvars.b.l.nosuch": "the list",
    }
    messages = {}
    for name in places:
        with pytest.raises(InvalidInput) as caught:
            render_text(f"{{{{ {name} }}}}", variables, AT)
        messages[name] = caught.value.problems[0].what
    assert messages == {name: f"no `{name.rpartition('.')[2]}` in {place}" for name, place in places.items()}


def test_a_value_computed_from_a_secret_is_secret_across_hosts_and_nested_variables(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {vars: {open: plain, named: '{{ hidden }}'}, hosts: {a: {}, b: {hidden: s, deep: [{x: '{{ named }}'}]}}}"
    )
    inventory = load_inventory(path)
    encrypted = EncryptedValue("$ANSIBLE_VAULT;", lambda _text, _at: "s3cret")
    inventory.hosts["b"].vars.entries["hidden"] = Scalar(encrypted, AT)
    hostvars = HostVars(inventory)
    cases = {
        "{{ hostvars.b.hidden }}": True,
        "{{ hostvars.b.named | upper }}": True,
        "{{ [hostvars['b'].deep[0].x, open] }}": True,
        "{% if hostvars.b.hidden %}yes{% endif %}": True,
        "{{ open }} {{ hostvars.b.open }}": False,
        "{{ hostvars.b.deep | length }}": False,
    }
    for _ in range(2):  # the second time from what was rendered the first time
        computed = {text: is_secret(Scalar(text, AT, text), hostvars["a"]) for text in cases}
        assert {text for text in cases if computed[text] != cases[text]} == set()


TOO_LARGE = "the template renders to a value of more than 1,000,000 characters or elements"


@pytest.mark.parametrize(
    "text",
    [
        "{{ '{:99999999999999999999}'.format(1) }}",
        "{{ '{a:99999999999999999999}'.format_map({'a': 1}) }}",
        "{{ '%99999999999999999999d' | format(1) }}",
        "{{ '%99999999999999999999d' % 1 }}",
        "{{ '{:{}}'.format(1, 99999999999999999999) }}",
        "{{ '{a:{b}}'.format(a=1, b=99999999999999999999) }}",
        "{{ '{a:{b[0]}}'.format_map({'a': 1, 'b': [99999999999999999999]}) }}",
        "{{ '%*d' | format(99999999999999999999, 1) }}",
        "{{ '%-*d' % (-99999999999999999999, 1) }}",
    ],
)
def test_a_format_is_refused_before_it_is_computed(text: str) -> None:
    # Python itself fails with such widths, in other words: those are not compared here.
    assert TOO_LARGE in error_of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'1234567'.upper()", "1234567"),
        ("'{:5}|'.format(1)", "    1|"),
        ("'{:{}}|'.format(1, 5)", "    1|"),
        ("'%*d|' % (5, 1)", "    1|"),
        ("'{}|'.format(12345678)", "12345678|"),
        ("'%d %%*' % 12345678", "12345678 %*"),
    ],
)
def test_only_the_width_of_a_format_counts(text: str, value: str) -> None:
    assert render_value(f"{{{{ {text} }}}}") == value


def test_a_file_is_looked_up_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"x" * 1_000_000)
    assert len(render_value("{{ lookup('file', 'key') }}", inventory_dir=str(tmp_path))) == 1_000_000
    file.write_bytes(b"x" * 1_000_001)
    with pytest.raises(InvalidInput, match="lookup of the file `key`: larger than 1,000,000 bytes"):
        render_value("{{ lookup('file', 'key') }}", inventory_dir=str(tmp_path))


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_width_of_a_million_is_the_last_one(sign: str) -> None:
    assert render_value(f"{{{{ ('%*d' % ({sign}1000000, 1)) | length }}}}") == 1_000_000
    assert TOO_LARGE in error_of(f"{{{{ ('%*d' % ({sign}1000001, 1)) | length }}}}")
