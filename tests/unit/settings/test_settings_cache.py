"""Settings that hosts share are checked once, and no host gets values of another."""

import pytest

from tests.support.memory_cluster import make_context
from tfprov.errors import InvalidInput
from tfprov.inventory.yaml_source import read_groups
from tfprov.settings.resolve import RoleSettings, SettingsCache, resolve
from tfprov.yamltext.load import parse

INVENTORY = """\
all:
  vars:
    tfprov:
      cluster: shared
      image: {name: "x:1"}
      command: [python, x.py, "--who=WHO"]
      env: {NAME: "WHO", TASK: "{{ task.name }}"}
    indirect: "{{ inventory_hostname }}"
    own: all
    address_of: "{{ inventory_hostname }}.example.com"
  children:
    ps: {hosts: {h0: }}
    worker:
      hosts:
        h[1:20]:
        h21: {own: other}
        h22: {ansible_host: "{{ address_of }}"}
        h23: {ansible_host: "{{ address_of }}", own: third}
    odd: {hosts: {"h[1:20:2]": }, vars: {rack: odd}}
    even: {hosts: {h21: , "h[2:20:2]": , h22: , h23: , h0: }, vars: {rack: even}}
"""


def resolve_with(who: str) -> dict[str, RoleSettings]:
    text = INVENTORY.replace("WHO", who)
    return {role.host: role for role in resolve(read_groups(parse(text, "inventory.yml"), "inventory.yml"))}


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("{{ inventory_hostname }}", lambda n: f"h{n}"),
        ("{{ indirect }}", lambda n: f"h{n}"),
        ("{{ hostvars[inventory_hostname].own }}", lambda n: {21: "other", 23: "third"}.get(n, "all")),
        ("{{ own }}", lambda n: {21: "other", 23: "third"}.get(n, "all")),
        ("{{ rack }}", lambda n: "even" if n % 2 == 0 or n > 20 else "odd"),
        (
            "{{ group_names | join('+') }}",
            lambda n: f"{'even' if n % 2 == 0 or n > 20 else 'odd'}+{'worker' if n else 'ps'}",
        ),
        ("{{ address_of }}", lambda n: f"h{n}.example.com"),
        ("{{ missing | default(inventory_hostname) }}", lambda n: f"h{n}"),
        ("{{ 'constant' }}", lambda _: "constant"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_host_gets_its_own_values(who: str, expected: "object") -> None:
    assert callable(expected)
    text = INVENTORY.replace("WHO", who)
    wanted = {container.task.host: container for container in make_context(text).wanted}
    assert {host: one.env["NAME"] for host, one in wanted.items()} == {f"h{n}": expected(n) for n in range(24)}
    assert {host: one.argv[2] for host, one in wanted.items()} == {f"h{n}": f"--who={expected(n)}" for n in range(24)}


def test_a_failing_template_fails_for_its_host_alone() -> None:
    text = INVENTORY.replace("WHO", "{{ rack }}").replace('"h[2:20:2]": , ', "")
    with pytest.raises(InvalidInput) as caught:
        make_context(text)
    assert [problem.what for problem in caught.value.problems] == ["undefined variable `rack`"] * 2


def test_hosts_that_are_alike_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    original = SettingsCache.checked

    def counting(self, role, written, context, check):  # type: ignore[no-untyped-def]
        def noted():  # type: ignore[no-untyped-def]
            checked.append(role)
            return check()

        return original(self, role, written, context, noted)

    monkeypatch.setattr(SettingsCache, "checked", counting)
    assert len(resolve_with("{{ own }}")) == 24
    assert checked.count("worker") == 3
    checked.clear()
    assert len(resolve_with("{{ inventory_hostname }}")) == 24
    assert checked.count("worker") == 23
